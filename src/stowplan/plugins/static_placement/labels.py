"""How a node says which pods belong on it: the grammar of pins.

  rf.scheduler.<SCHEDULER>.<NAMESPACE>/<POD>   a label, whatever its value
  rf.scheduler.<SCHEDULER>/<POD>               the older label: pods of that name in any namespace
  rf.scheduler.<SCHEDULER>.<NAMESPACE>/pods    an annotation that lists names, for those that are
                                               too long for a label

The plugin reads nodes with it, and the commands that pin pods write with it; nothing else knows how
these keys are made. A scheduler reads keys by its own name only: `rf.scheduler.a.b/x` pins a pod of
namespace b for scheduler `a`, and a pod of any namespace for scheduler `a.b`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from stowplan.api.labels import label_key_errors

DEFAULT_PREFIX: Final = "rf.scheduler"
#: The last part of the annotation's key.
LIST_NAME: Final = "pods"
#: What a label can hold, and the longest name of a namespace.
MAX_NAME: Final = 63
_MAX_KEY_PREFIX: Final = 253
_SEPARATORS: Final = re.compile(r"[,\s]+")


class Form(Enum):
    """How a pin is written."""

    LABEL = "label"
    OLD_LABEL = "older label"
    ANNOTATION = "annotation"


@dataclass(frozen=True, slots=True)
class Pin:
    """A pod that a node carries a pin for."""

    #: "": any namespace, as the older label says.
    namespace: str
    pod: str
    form: Form
    #: The label or annotation it was read from.
    key: str


@dataclass(frozen=True, slots=True)
class PinLabels:
    """The keys of one scheduler. Its name must have passed `name_problem`."""

    scheduler: str
    prefix: str = DEFAULT_PREFIX

    @property
    def stem(self) -> str:
        """What all keys of this scheduler begin with."""
        return f"{self.prefix}.{self.scheduler}"

    def label(self, namespace: str, pod: str) -> str:
        return f"{self.stem}.{namespace}/{pod}"

    def old_label(self, pod: str) -> str:
        return f"{self.stem}/{pod}"

    def annotation(self, namespace: str) -> str:
        """Its value lists pods, separated by commas or white space."""
        return f"{self.stem}.{namespace}/{LIST_NAME}"

    def fits_a_label(self, namespace: str, pod: str) -> bool:
        """Whether a label can name the pod; if not, the annotation must."""
        return not label_key_errors(self.label(namespace, pod))

    def pins_of(
        self, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
    ) -> Iterator[Pin]:
        """All pins of a node, in every form; a pod may come more than once."""
        stem = self.stem
        for key in labels or ():
            if key.startswith(stem):
                head, _, pod = key.partition("/")
                namespace = _namespace(head, stem)
                if pod and namespace is not None:
                    form = Form.LABEL if namespace else Form.OLD_LABEL
                    yield Pin(namespace, pod, form, key)
        for key, value in (annotations or {}).items():
            if key.startswith(stem):
                head, _, name = key.partition("/")
                namespace = _namespace(head, stem)
                if namespace and name == LIST_NAME:
                    for pod in listed_pods(value):
                        yield Pin(namespace, pod, Form.ANNOTATION, key)

    def command(self, namespace: str, pod: str, node: str = "NODE") -> str:
        """What to type so that the pod may go to a node."""
        if self.fits_a_label(namespace, pod):
            return f"kubectl label node {node} {self.label(namespace, pod)}="
        return f"kubectl annotate node {node} {self.annotation(namespace)}={pod}"


def listed_pods(value: str) -> tuple[str, ...]:
    """The pods that an annotation lists, each once, in its order."""
    return tuple(dict.fromkeys(name for name in _SEPARATORS.split(value) if name))


def name_problem(scheduler: str, prefix: str = DEFAULT_PREFIX) -> str | None:
    """Why the keys of this scheduler could not be label keys, with the rule; None: they can."""
    room = _MAX_KEY_PREFIX - MAX_NAME - len(".") * 2 - len(prefix)
    rule = (
        "lower case letters, digits, '-' and '.', each part between dots beginning and ending with "
        "a letter or digit"
    )
    if label_key_errors(f"{prefix}/x"):
        return f"{prefix!r} cannot begin a node label: the prefix must be {rule}"
    shown = f"{prefix}.{scheduler}.<NAMESPACE>/<POD>"
    if not scheduler or label_key_errors(f"{prefix}.{scheduler}/x"):
        return (
            f"scheduler name {scheduler!r} cannot be part of the node label {shown}: it must be "
            f"{rule}"
        )
    if len(scheduler) > room:
        return (
            f"scheduler name {scheduler!r} is too long for the node label {shown}: it may have "
            f"{max(room, 0)} characters, so that every namespace has room behind it"
        )
    return None


def _namespace(head: str, stem: str) -> str | None:
    """The namespace in what stands before the slash; "" for the older form, None: not ours."""
    if head == stem:
        return ""
    namespace = head.removeprefix(f"{stem}.")
    return None if namespace == head or not namespace or "." in namespace else namespace
