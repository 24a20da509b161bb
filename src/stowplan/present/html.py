"""An HTML page in one file: it loads nothing, and it can be read on light and dark screens.

Every colour is a CSS variable with a value for light and one for dark screens.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final, TypeAlias

#: By name: the value on a light and on a dark screen.
Colours: TypeAlias = Mapping[str, tuple[str, str]]

_COLOURS: Final[Colours] = {
    "paper": ("#fff", "#14181c"),
    "ink": ("#1c2126", "#e6e8ea"),
    "faint": ("#5f6973", "#98a2ad"),
    "rule": ("#d5dae0", "#343c44"),
    "good": ("#1a7f37", "#57ab5a"),
    "bad": ("#b00020", "#ff6b6b"),
}
_STYLE: Final = """
body { margin: 2rem auto; padding: 0 1rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .4rem; line-height: 1.3; }
p.about { color: var(--faint); } .good { color: var(--good); } .bad { color: var(--bad); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { border-bottom: 1px solid var(--rule); }
code { font-size: .9em; }
"""


def page(title: str, body: Iterable[str], *, colours: Colours, style: str, script: str = "") -> str:
    """`body` is HTML, `style` goes after the base style, `colours` beside the base colours."""
    known = {**_COLOURS, **colours}
    light = " ".join(f"--{name}: {value};" for name, (value, _) in known.items())
    dark = " ".join(f"--{name}: {value};" for name, (_, value) in known.items())
    lines = "\n".join([*body, *([f"<script>{script}</script>"] if script else [])])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>\n:root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}{_STYLE}{style}</style>"
        f"</head>\n<body>\n{lines}\n</body></html>\n"
    )


def table(rows: Iterable[Sequence[str]]) -> str:
    """Cells of text; the first row is the head. It scrolls where it is too wide."""
    head, *body = ([escape(cell) for cell in row] for row in rows)
    lines = [f"<tr><th>{'</th><th>'.join(head)}</th></tr>"]
    lines += [f"<tr><td>{'</td><td>'.join(row)}</td></tr>" for row in body]
    return f'<div class="wide"><table>{"".join(lines)}</table></div>'
