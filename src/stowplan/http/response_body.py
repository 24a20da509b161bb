"""Decode the body of a response: by length, in chunks, to the end of the connection, with gzip.

`client` feeds it what it receives. Invariant: one call returns at most `MAX_UNREAD` unpacked bytes,
however well the body is packed.
"""

from __future__ import annotations

import zlib
from typing import Final

from stowplan.http.parser import CHUNKED, ChunkedDecoder, ProtocolError, ResponseHead

#: A client stops receiving when this much is unread.
MAX_UNREAD: Final = 4 * 1024 * 1024
_GZIP: Final = 16 + zlib.MAX_WBITS


class ResponseBody:
    """The body of a response, from pieces of any size.

    Few packed bytes may stand for many: what `feed` did not return is returned by `more`.
    """

    #: Bytes came after the end.
    is_followed = False
    has_more = False
    _chunks: ChunkedDecoder | None = None
    _gunzip: zlib._Decompress | None = None

    def __init__(self, head: ResponseHead, unpacks: bool) -> None:
        length = head.length
        self.is_complete = length == 0
        self.ends_with_connection = length is None
        self._left = length or 0
        if length == CHUNKED:
            self._chunks = ChunkedDecoder()
        encoding = head.headers.find(b"content-encoding")
        if encoding is not None and encoding != b"identity":
            if encoding.lower() != b"gzip" or not unpacks:
                raise ProtocolError("an encoding that was not requested")
            self._gunzip = zlib.decompressobj(_GZIP)

    def feed(self, data: bytes) -> bytes:
        if self.is_complete:
            self.is_followed = self.is_followed or bool(data)
            return b""
        if self._chunks is not None:
            data = self._chunks.feed(data)
            self.is_complete = self._chunks.is_complete
            self.is_followed = bool(self._chunks.rest)
        elif not self.ends_with_connection:
            self.is_followed = len(data) > self._left
            if self.is_followed:
                data = data[: self._left]
            self._left -= len(data)
            self.is_complete = self._left == 0
        return data if self._gunzip is None else self._unpack(data)

    def more(self) -> bytes:
        return self._unpack(b"")

    def _unpack(self, data: bytes) -> bytes:
        gunzip = self._gunzip
        assert gunzip is not None
        try:
            unpacked = gunzip.decompress(gunzip.unconsumed_tail + data, MAX_UNREAD)
        except zlib.error:
            self.has_more = False
            raise ProtocolError("the gzip data is corrupt") from None
        # All input may have been consumed before all output was returned.
        self.has_more = len(unpacked) == MAX_UNREAD or bool(gunzip.unconsumed_tail)
        if self.is_complete and not self.has_more and not gunzip.eof:
            raise ProtocolError("the gzip data is truncated")
        return unpacked
