"""Two answers to a line of `stowplan decide`, side by side.

Equal means: the same nodes with the same code, plugin and reasons, the same scores of every plugin,
the same totals, the same best nodes; and an error, by a plugin that broke, only where the other
side has the same one. Where the oracle was let to choose, every one of our choices is its choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stowplan.framework.selection import best_place
from tests.parity.generate.dice import Json

#: Upstream ranges over a Go map for these, so the order of its reasons is anybody's guess.
REASONS_IN_ANY_ORDER = {"NodeResourcesFit"}

#: Said of nodes that a PreFilter result leaves out.
EXCLUDED = "ExcludedByPreFilter"

#: How errors of plugins that score begin.
SCORING = ("running PreScore plugin", "running Score plugin")

#: What kind of difference it is: shrinking a case must not end at another one.
Kind = str


class Difference:
    """Where two answers differ: a line of text each, and a kind to know it by."""

    def __init__(self, kind: Kind, lines: list[str]) -> None:
        self.kind = kind
        self.lines = lines

    def __str__(self) -> str:
        return "\n".join(self.lines)


def difference(ours: Json, theirs: Json) -> Difference | None:
    """None if the answers say the same."""
    return _judged(ours, theirs) or _chosen(ours, theirs)


def _judged(ours: Json, theirs: Json) -> Difference | None:
    if "error" in ours and "error" in theirs:
        if _one_line(ours["error"]) == _one_line(theirs["error"]):
            return None
        return Difference("text of an error", _pair("error", ours, theirs))
    if "error" in ours or "error" in theirs:
        who = "ours" if "error" in ours else "theirs"
        return Difference(f"only {who} is an error", _pair("error", ours, theirs))
    places = _places(_plain(ours), _plain(theirs))
    if not places:
        return None
    lines = [text for place, we, they in places for text in _texts(place, we, they)]
    return Difference(_kind(places[0]), lines)


def _chosen(ours: Json, theirs: Json) -> Difference | None:
    """The first of our choices that is not the oracle's."""
    if "choices" not in ours or not ("choice" in theirs or "error" in theirs):
        return None
    for number, choice in enumerate(ours["choices"], 1):
        if "error" in theirs and 0 < choice.get("evaluated", 0) < len(ours["order"]):
            # The search ended before it came to the node that breaks a plugin.
            continue
        if theirs.get("error", "").startswith(SCORING) and choice.get("feasible") == 1:
            # The oracle judges scores of a single node too; a scheduler has no use for them.
            continue
        expected = _expected(choice, theirs, ours["start"])
        found = _places(_comparable(choice, expected), expected)
        if found:
            lines = [text for place, we, they in found for text in _texts(place, we, they)]
            kind = f"decide: {found[0][0][0]}"
            return Difference(kind, [f"the choice when asked the {number}. time:", *lines])
    return None


def _comparable(choice: Json, expected: Json) -> Json:
    if "error" in choice:
        # Which of several nodes breaks a plugin first depends on where the search begins.
        return {"error": True}
    if "room" not in expected:
        choice = {name: value for name, value in choice.items() if name != "room"}
    if "totals" not in expected and "node" in expected:
        return {name: value for name, value in choice.items() if name not in ("totals", "scores")}
    return choice


def _expected(ours: Json, theirs: Json, start: int) -> Json:
    """What the oracle chose, in the form of our choices."""
    if "error" in theirs:
        return {"error": True}
    chosen = theirs["choice"]
    if not chosen["node"]:
        expected = {"message": chosen["message"], "plugins": chosen.get("plugins", [])}
        if "room" in chosen:
            expected["room"] = {
                node: {"victims": cost["victims"], "violations": cost.get("violations", 0)}
                for node, cost in chosen["room"].get("candidates", {}).items()
            }
        return expected
    expected = {name: chosen[name] for name in ("node", "evaluated", "feasible")}
    if chosen["feasible"] == len(theirs["totals"]) > 1:
        # Of some of the feasible nodes it is not known what they score among themselves.
        expected |= {name: theirs[name] for name in ("totals", "scores")}
        if "order" in theirs:
            expected["node"] = _winner(theirs["totals"], theirs["order"], start)
        narrowed = any(said["code"] == EXCLUDED for said in theirs["nodes"].values())
        if narrowed and ours.get("node") in theirs["best"]:
            # Upstream takes the nodes that PreFilter names in the order of a Go map: any of the
            # best may be the one that it finds first.
            expected["node"] = ours["node"]
    return expected


def _winner(totals: Json, order: list[str], start: int) -> str:
    """Who is chosen if the search goes through nodes in this order: upstream's heap decides."""
    start %= len(order)
    names = [name for name in order[start:] + order[:start] if name in totals]
    return names[best_place(np.array([totals[name] for name in names], np.int64))]


def _one_line(text: str) -> str:
    return "; ".join(text.splitlines())


def _plain(answer: Json) -> Json:
    """The answer without the liberties that its form leaves."""
    # In the order in which one thing leads to the other.
    plain: Json = {"prefilter": _verdict(answer.get("prefilter") or {})}
    plain |= {
        "nodes": {name: _verdict(said) for name, said in (answer.get("nodes") or {}).items()},
        "scores": answer.get("scores") or {},
        "totals": answer.get("totals") or {},
        "best": answer.get("best") or [],
    }
    return plain


def _verdict(said: Json) -> Json:
    verdict = {key: value for key, value in said.items() if value}
    if said.get("plugin") in REASONS_IN_ANY_ORDER:
        verdict["reasons"] = sorted(said.get("reasons", ()))
    return verdict


def _places(ours: Any, theirs: Any, *path: str) -> list[tuple[tuple[str, ...], Any, Any]]:
    """Every place where two trees differ, the outermost that tells what is the matter."""
    if ours == theirs:
        return []
    if isinstance(ours, dict) and isinstance(theirs, dict) and "code" not in {**ours, **theirs}:
        return [
            place
            for key in {**theirs, **ours}
            for place in _places(ours.get(key), theirs.get(key), *path, key)
        ]
    return [(path, ours, theirs)]


def _kind(place: tuple[tuple[str, ...], Any, Any]) -> Kind:
    path, ours, theirs = place
    if path[0] == "scores":
        return f"score of {path[-1]}"
    if path[0] in ("nodes", "prefilter"):
        plugins = sorted({str((said or {}).get("plugin", "")) for said in (ours, theirs)} - {""})
        return f"{path[0]}: {' or '.join(plugins)}"
    return path[0]


def _texts(path: tuple[str, ...], ours: Any, theirs: Any) -> list[str]:
    place = " ".join(path)
    return [f"{place}: we say    {_word(ours)}", f"{place}: upstream  {_word(theirs)}"]


def _word(said: Any) -> str:
    if isinstance(said, dict) and "code" in said:
        by = f" by {said['plugin']}" if "plugin" in said else ""
        return f"{said['code']}{by} {said.get('reasons', '')}".rstrip()
    return str(said) if said or said == 0 else "nothing"


def _pair(key: str, ours: Json, theirs: Json) -> list[str]:
    return _texts((key,), ours.get(key), theirs.get(key))
