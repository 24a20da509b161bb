"""Find members of a plugin class that have nearly the name of one that the framework uses.

`Registry.register` refuses such a class, and the testing kit's check `contract` reports it. A
member counts only if the class does not have what was probably meant: a plugin with `score` may
have a function `scored` of its own. Swapped or doubled letters (`socre`, `scorre`) always count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import FunctionType

from stowplan.framework.plugin import POINTS, Plugin

#: Every method that the framework calls.
METHODS = (
    *(method for methods in POINTS.values() for method in methods),
    "normalize", "pre_bind_pre_flight", "post_filter_steps", "sign", "surroundings", "events",
    "verdict", "what_if",
)  # fmt: skip
#: Every attribute that the framework reads.
ATTRIBUTES = (
    "name", "Args", "reads", "score_reads", "looks_up", "patches", "deletes", "bind_is_idempotent",
    "pre_bind_is_quick", "overlays", "verdicts", "needs",
)  # fmt: skip
#: kube-scheduler's names, and others that are not close enough.
_OTHER_NAMES = {
    "normalizescore": "normalize", "normalisescore": "normalize", "signature": "sign",
}  # fmt: skip
#: `scores` and `normalise` are above it; `filtered` and `bindings` below.
_CLOSE = 0.87
_METHOD_KINDS = (FunctionType, staticmethod, classmethod)


def misspelt(plugin: type[Plugin]) -> Iterator[tuple[str, str]]:
    """Methods that nothing calls, each with the one that was probably meant."""
    for member, value in _own_members(plugin):
        if member in METHODS or not isinstance(value, _METHOD_KINDS):
            continue
        meant = _nearest(member, METHODS, _OTHER_NAMES)
        if meant and (_is_typo(member, meant) or not _is_defined(plugin, meant)):
            yield member, meant


def misspelt_attributes(plugin: type[Plugin]) -> Iterator[tuple[str, str]]:
    """Attributes that nothing reads, each with the one that was probably meant."""
    for member, value in _own_members(plugin):
        if member in ATTRIBUTES or isinstance(value, _METHOD_KINDS):
            continue
        if member in METHODS and callable(value):
            continue
        meant = _nearest(member, ATTRIBUTES, {})
        if meant and not any(meant in vars(kind) for kind in plugin.__mro__ if kind is not Plugin):
            yield member, meant


def _own_members(plugin: type[Plugin]) -> Iterator[tuple[str, object]]:
    """Public members of the author's classes."""
    for kind in plugin.__mro__:
        if kind is object or kind.__module__.startswith("stowplan."):
            continue
        for name, value in vars(kind).items():
            if not name.startswith("_"):
                yield name, value


def _nearest(member: str, names: Sequence[str], others: dict[str, str]) -> str:
    """The name that was probably meant; "" if none is close."""
    plain = {_plain(name): name for name in names} | others
    if meant := plain.get(_plain(member)):
        return meant
    for name in names:
        if _is_typo(member, name):
            return name
    from difflib import get_close_matches  # only plugins from outside pay for it

    alike = [name for name in names if name[0] == member[0]]
    return next(iter(get_close_matches(member, alike, n=1, cutoff=_CLOSE)), "")


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


def _is_typo(member: str, meant: str) -> bool:
    """Whether two neighbouring letters are swapped, or one letter is doubled."""
    return member != meant and any(
        member == meant[:at] + meant[at : at + 2][::-1] + meant[at + 2 :]
        or member == meant[: at + 1] + meant[at:]
        for at in range(len(meant))
    )


def _is_defined(plugin: type[Plugin], method: str) -> bool:
    """Whether the class has the method, or the column form of it."""
    forms = {"filter": ("filter", "filter_columns"), "score": ("score", "score_columns")}
    return any(
        form in vars(kind)
        for kind in plugin.__mro__
        if kind is not Plugin
        for form in forms.get(method, (method,))
    )
