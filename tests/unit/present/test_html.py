"""Pages load nothing, and every colour has a value for light and dark screens."""

from __future__ import annotations

import re

from stowplan.present import html


def test_a_page_is_complete_in_itself() -> None:
    text = html.page(
        "<title>",
        ["<p>x</p>"],
        colours={"mine": ("#111", "#eee")},
        style="p { color: var(--mine) }",
    )
    assert "<title>&lt;title&gt;</title>" in text
    assert not re.search(r"https?:|@import|url\(|src=|href=|<script", text)
    light, dark = re.findall(r":root \{(.*?)\}", text)
    assert "--mine: #111;" in light
    assert "--mine: #eee;" in dark
    assert re.findall(r"--\w+", light) == re.findall(r"--\w+", dark)


def test_a_table_has_a_head_and_escapes_its_cells() -> None:
    text = html.table([["a", "b"], ["<1>", "2"]])
    assert "<tr><th>a</th><th>b</th></tr><tr><td>&lt;1&gt;</td><td>2</td></tr>" in text
