"""An HTML page in one file with the look of the console; it loads nothing.

`stowplan simulate --html` and `stowplan bench --html` write such pages. Stylesheet, charts and
uPlot are the console's own files, put into the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Final

_STYLES: Final = ("vendor/uPlot.css", "look.css")


def page(title: str, body: Iterable[str], *, style: str = "", script: str = "") -> str:
    """`body` is HTML, `style` follows the look, `script` runs when charts are drawn."""
    look = "".join(_static(name) for name in _STYLES)
    charts = _static("chart.js") + _static("file_charts.js")
    lines = "\n".join(body)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n{look}{style}</style></head>\n<body>\n"
        f'<header><strong class="brand">Stowplan</strong></header>\n<main>\n{lines}\n</main>\n'
        f"<script>{_static('vendor/uPlot.js')}</script>\n"
        f'<script type="module">{charts}</script>\n<script type="module">{script}</script>\n'
        "</body></html>\n"
    )


@cache
def _static(name: str) -> str:
    return (files("stowplan.console") / "static" / name).read_text("utf-8")


def table(rows: Iterable[Sequence[str]]) -> str:
    """Cells of text; the first row is the head. It scrolls where it is too wide."""
    head, *body = ([escape(cell) for cell in row] for row in rows)
    shown = "".join(f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in body)
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="Table"><table>'
        f"<thead><tr><th>{'</th><th>'.join(head)}</th></tr></thead><tbody>{shown}</tbody></table></div>"
    )
