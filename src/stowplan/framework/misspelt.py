"""Find methods of a plugin class that are called nearly as an extension point, and so never called.

`Registry.register` refuses such a class, and the testing kit's check `contract` reports it. A
method counts only if the class does not have what was probably meant: a plugin with `score` may
have a function `scored` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType

from stowplan.framework.plugin import POINTS, Plugin

#: Every method that the framework calls.
METHODS = (
    *(method for methods in POINTS.values() for method in methods),
    "normalize", "pre_bind_pre_flight", "post_filter_steps", "sign", "surroundings", "events",
    "verdict", "what_if",
)  # fmt: skip
#: kube-scheduler's names, and others that are not close enough.
_OTHER_NAMES = {"normalizescore": "normalize", "normalisescore": "normalize"}
#: `scores` and `normalise` are above it; `filtered` and `bindings` below.
_CLOSE = 0.87


def misspelt(plugin: type[Plugin]) -> Iterator[tuple[str, str]]:
    """Methods that nothing calls, each with the one that was probably meant."""
    plain = {method.replace("_", ""): method for method in METHODS} | _OTHER_NAMES
    for member in _own_methods(plugin):
        meant = plain.get(member.lower().replace("_", ""))
        if meant is None:
            from difflib import get_close_matches  # only plugins from outside pay for it

            meant = next(iter(get_close_matches(member, METHODS, n=1, cutoff=_CLOSE)), None)
        if meant is not None and not _is_defined(plugin, meant):
            yield member, meant


def _own_methods(plugin: type[Plugin]) -> Iterator[str]:
    """Public methods of the author's classes that are no extension points."""
    for kind in plugin.__mro__:
        if kind is object or kind.__module__.startswith("stowplan."):
            continue
        for name, value in vars(kind).items():
            is_method = isinstance(value, FunctionType | staticmethod | classmethod)
            if is_method and name not in METHODS and not name.startswith("_"):
                yield name


def _is_defined(plugin: type[Plugin], method: str) -> bool:
    """Whether the class has the method, or another form of it."""
    forms = next((methods for methods in POINTS.values() if method in methods), (method,))
    return any(
        form in vars(kind) for kind in plugin.__mro__ if kind is not Plugin for form in forms
    )
