"""What the extender is measured beside: a plain Flask application that does the same NOP work.

gunicorn loads this file in an environment of its own (see `extender_contestants`); nothing here
imports it. It is the WCA scheduler's stack without its types: the body is read by
`request.get_json()`, the answer is built of dicts and lists and written by `jsonify`.
"""

from __future__ import annotations

from typing import Any

from flask import Flask, jsonify, request  # type: ignore[import-not-found]  # installed for the benchmark only

app = Flask("k8s scheduler extender")


def _names(args: Any) -> list[str]:
    if args["NodeNames"] is not None:
        names: list[str] = args["NodeNames"]
        return names
    return [node["metadata"]["name"] for node in args["Nodes"]["items"]]


def filter_nodes() -> Any:
    args = request.get_json()
    return jsonify(
        {
            "Nodes": args["Nodes"],
            "NodeNames": args["NodeNames"],
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": "",
        }
    )


def prioritize_nodes() -> Any:
    return jsonify([{"Host": name, "Score": 0} for name in _names(request.get_json())])


app.add_url_rule("/filter", view_func=filter_nodes, methods=["POST"])
app.add_url_rule("/prioritize", view_func=prioritize_nodes, methods=["POST"])
app.add_url_rule("/status", view_func=lambda: jsonify(True))
