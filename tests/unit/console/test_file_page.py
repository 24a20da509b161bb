"""Pages in one file load nothing, and every colour has a value for light and dark screens."""

from __future__ import annotations

import re

from stowplan.console import file_page
from stowplan.console.plots import STYLE


def test_a_page_is_complete_in_itself() -> None:
    text = file_page.page("<title>", ["<p>x</p>"], style=STYLE)
    assert "<title>&lt;title&gt;</title>" in text
    assert not re.search(r"@import|url\(|\bsrc=|<link|\bfrom\s*\"", text)
    light, dark = (
        set(re.findall(r"(--[\w-]+):", each)) for each in re.findall(r":root \{(.*?)\}", text, re.S)
    )
    assert light == dark
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= light


def test_a_table_has_a_head_and_escapes_its_cells() -> None:
    text = file_page.table([["a", "b"], ["<1>", "2"]])
    assert "<tr><th>a</th><th>b</th></tr>" in text
    assert "<tr><td>&lt;1&gt;</td><td>2</td></tr>" in text
