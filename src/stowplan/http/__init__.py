"""HTTP/1.1 for clients and servers: one parser, one client connection, one server connection.

`parser` reads heads and chunked bodies for both sides. `client` sends requests over kept-alive
connections, which `connecting` opens, through a proxy and `tls` where needed. `server` and
`server_connection` answer requests. docs/http.md has the figures that were measured against
aiohttp, and the command.
"""
