"""`pod/web-0`, `pvc/shop/data`, `node/node-*`: how a scenario names objects of a cluster.

Kinds are found as kubectl finds them: by kind, plural, singular or short name. Read by `document`
and `expectations`.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final

from stowplan.apiserver.kinds import KINDS, Kind
from stowplan.sim.scenarios.actions import ObjectPattern
from stowplan.workloads.fields import Fields

#: Of two kinds with one name (events) the first counts, as with kubectl.
_KINDS: Final[Mapping[str, Kind]] = {
    name: kind
    for kind in reversed(KINDS)
    if kind.stored
    for name in (kind.kind.lower(), kind.plural, kind.singular, *kind.short_names)
}


def read_reference(text: object, fields: Fields, at: str) -> ObjectPattern:
    """`kind/name` or `kind/namespace/name`; ConfigError with the place of the field `at`."""
    parts = text.split("/") if isinstance(text, str) else []
    if len(parts) not in (2, 3) or not all(parts):
        fields.fail(f"`{at}`: `{text}` is not an object; write kind/name, as in pod/web-0", at=at)
    kind = _KINDS.get(parts[0].lower())
    if kind is None:
        close = get_close_matches(parts[0].lower(), _KINDS, 1)
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(sorted(_KINDS))}"
        fields.fail(f"`{at}`: there is no kind `{parts[0]}`; {hint}", at=at)
    if len(parts) == 3 and not kind.namespaced:
        fields.fail(f"`{at}`: a {kind.kind} is in no namespace; write {parts[0]}/name", at=at)
    return ObjectPattern(kind.kind, parts[-1], parts[1] if len(parts) == 3 else "")
