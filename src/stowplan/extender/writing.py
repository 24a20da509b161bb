"""What algorithms answer becomes bodies, in Go's field names; what they may not answer is refused.

Called by `service`. kube-scheduler decodes an answer as a whole: one score that is no integer, or
one node it did not ask about, would cost it all the others, so answers are checked here, where the
algorithm can be named. The bytes of whole nodes are sent back as they came.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from msgspec import Raw

from stowplan.api.extender_protocol import (
    MAX_SCORE,
    MIN_SCORE,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    HostPriority,
    MetaVictims,
)
from stowplan.extender.reading import ReceivedArgs

_encode: Final = msgspec.json.encode
_Hosts: TypeAlias = list[str]
_Scores: TypeAlias = list[Annotated[int, msgspec.Meta(ge=MIN_SCORE, le=MAX_SCORE)]]


class BadAnswer(Exception):
    """An algorithm answered what its method may not answer."""


def write_filter_result(args: ReceivedArgs, result: ExtenderFilterResult) -> bytes:
    if not isinstance(result, ExtenderFilterResult):
        raise BadAnswer(f"the answer is {_kind(result)}, not an ExtenderFilterResult")
    nodes: list[bytes | Raw] = [b"null"]
    names: bytes | memoryview = b"null"
    if not result.Error:
        if args.has_nodes:
            nodes = _kept_nodes(args, result)
        if args.sent_names is not None:
            names = _encoded_names(args, _kept_names(args, result))
    # Tens of megabytes, where they are nodes: put together only once.
    return b"".join(
        (
            b'{"Nodes":',
            *nodes,
            b',"NodeNames":',
            names,
            b',"FailedNodes":',
            _reasons("FailedNodes", result.FailedNodes),
            b',"FailedAndUnresolvableNodes":',
            _reasons("FailedAndUnresolvableNodes", result.FailedAndUnresolvableNodes),
            b',"Error":',
            _encode(_sendable(result.Error)),
            b"}",
        )
    )


def everything_fits(args: ReceivedArgs) -> bytes:
    """The answer about a pod that is none of ours."""
    return write_filter_result(args, ExtenderFilterResult(NodeNames=list(args.asked)))


def failed_filter(problem: str) -> bytes:
    """The answer that makes kube-scheduler tell `problem` in the pod's events."""
    return _encode(
        {
            "Nodes": None,
            "NodeNames": None,
            "FailedNodes": {},
            "FailedAndUnresolvableNodes": {},
            "Error": _sendable(problem),
        }
    )


def _kept_names(args: ReceivedArgs, result: ExtenderFilterResult) -> Sequence[str]:
    """`args.asked` itself, if all stay."""
    names: Sequence[str] | None = result.NodeNames
    if result.Nodes is not None and not names:
        names = [_name_of(node) for node in _items(result.Nodes)]
    if names is None:
        return ()
    asked = args.asked
    if len(names) == len(asked) and tuple(names) == asked:
        return asked
    try:
        strangers = set(names).difference(asked)
    except TypeError as error:
        raise BadAnswer(f"NodeNames: {error}") from None
    if strangers:
        raise BadAnswer(f"NodeNames has {min(map(repr, strangers))}, which was not asked about")
    return names


def _encoded_names(args: ReceivedArgs, names: Sequence[str]) -> bytes | memoryview:
    """As they were sent, if all of them stay."""
    if args.encoded_names is not None and names is args.asked:
        return args.encoded_names
    return _encode(names)


def _kept_nodes(args: ReceivedArgs, result: ExtenderFilterResult) -> list[bytes | Raw]:
    """The pieces of a NodeList. `Nodes` of the answer may have been changed, so they are sent."""
    if result.Nodes is not None:
        items = _encode_answer("Nodes", _items(result.Nodes))
        return [b'{"metadata":{},"items":', items, b"}"]
    names = _kept_names(args, result)
    kept = args.raw_nodes
    if len(names) != len(kept) or names is not args.asked:
        by_name = dict(zip(args.asked, kept, strict=False))
        kept = [by_name[name] for name in names if name in by_name]
    separated: list[bytes | Raw] = [b","] * max(0, 2 * len(kept) - 1)
    separated[::2] = kept
    return [b'{"metadata":{},"items":[', *separated, b"]}"]


def _items(nodes: Any) -> list[Any]:
    """A list of nodes, or a NodeList around it."""
    items = nodes.get("items") if isinstance(nodes, dict) else nodes
    if not isinstance(items, list | tuple):
        raise BadAnswer(f"Nodes is {_kind(items)}, not a list of nodes")
    return list(items)


def _name_of(node: Any) -> str:
    try:
        name = node["metadata"]["name"]
    except (TypeError, KeyError, IndexError):
        raise BadAnswer("Nodes has a node without metadata.name") from None
    return str(name)


def _reasons(field: str, reasons: dict[str, str] | None) -> bytes:
    if not reasons:
        return b"{}"
    if not isinstance(reasons, dict):
        raise BadAnswer(f"{field} is {_kind(reasons)}, not a dict of reasons by node")
    return _encode_answer(field, {str(node): str(reason) for node, reason in reasons.items()})


def write_priorities(result: list[HostPriority]) -> tuple[bytes, int]:
    """The body, and how many scores were beyond 0 to 10."""
    if not isinstance(result, list | tuple):
        raise BadAnswer(f"the answer is {_kind(result)}, not a list of HostPriority")
    if not result:
        return b"[]", 0
    try:
        hosts = [each.Host for each in result]
        scores = [each.Score for each in result]
    except AttributeError:
        raise BadAnswer("the answer has an item that is not a HostPriority") from None
    body = _all_alike(hosts, scores)
    if body is not None:
        return body, 0
    if not _are(_Hosts, hosts):
        raise BadAnswer("a Host is not text")
    clamped = 0
    if not _are(_Scores, scores) or type(result[0]) is not HostPriority:
        fitting = [_fitting(each) for each in result]
        clamped = sum(int(is_clamped) for _, is_clamped in fitting)
        result = list(map(HostPriority, hosts, (score for score, _ in fitting)))
    return _encode_answer("the answer", result), clamped


def _all_alike(hosts: list[str], scores: list[Any]) -> bytes | None:
    """One score for all nodes, which is what algorithms answer who know nothing of a pod; None if
    it is not that simple. It takes half the time of thousands of objects."""
    score = scores[0]
    if type(score) is not int or not MIN_SCORE <= score <= MAX_SCORE:
        return None
    if scores.count(score) != len(scores):
        return None
    between = f'","Score":{score}}},{{"Host":"'
    try:
        text = between.join(hosts)
    except TypeError:
        return None
    length = len(text) - (len(hosts) - 1) * len(between)
    # Names that have to be escaped are longer in JSON than their quotes and commas make them.
    if not text.isascii() or len(_encode(hosts)) != length + 3 * len(hosts) + 1:
        return None
    return f'[{{"Host":"{text}","Score":{score}}}]'.encode()


def _are(kind: Any, values: list[Any]) -> bool:
    """Whether a list is of a type; many times quicker than a loop over thousands of nodes."""
    try:
        msgspec.convert(values, kind)
    except msgspec.ValidationError:
        return False
    return True


def _fitting(priority: HostPriority) -> tuple[int, bool]:
    """The score as an integer from 0 to 10, and whether that took more than rounding down."""
    score: Any = priority.Score
    is_number = isinstance(score, Real)
    if not is_number:
        raise BadAnswer(f"the Score of {priority.Host!r} is {_kind(score)}")
    if MIN_SCORE <= score <= MAX_SCORE:
        return int(score), False
    # Nor is NaN more than the most.
    return (MAX_SCORE if score > MAX_SCORE else MIN_SCORE), True


def write_preemption_result(result: ExtenderPreemptionResult) -> bytes:
    if not isinstance(result, ExtenderPreemptionResult):
        raise BadAnswer(f"the answer is {_kind(result)}, not an ExtenderPreemptionResult")
    nodes: Any = result.NodeNameToMetaVictims
    if not isinstance(nodes, dict) or not set(map(type, nodes.values())) <= {MetaVictims}:
        raise BadAnswer("NodeNameToMetaVictims is not a dict of MetaVictims by node")
    return _encode_answer("the answer", result)


def write_binding_result(result: ExtenderBindingResult) -> bytes:
    if not isinstance(result, ExtenderBindingResult):
        raise BadAnswer(f"the answer is {_kind(result)}, not an ExtenderBindingResult")
    return _encode({"Error": _sendable(result.Error)})


def checked_pod_names(result: list[str]) -> list[str]:
    """What `reschedule` answers; text would else be taken letter by letter."""
    if not isinstance(result, list | tuple):
        raise BadAnswer(f"the answer is {_kind(result)}, not a list of pod names")
    for name in result:
        if not isinstance(name, str):
            raise BadAnswer(f"the answer has {_kind(name)}, which is not a pod name")
    return list(result)


def _encode_answer(what: str, value: object) -> bytes:
    try:
        return _encode(value)
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise BadAnswer(f"{what} cannot be JSON: {error}") from None


def _sendable(text: object) -> str:
    """Without lone surrogates, which JSON in UTF-8 cannot have."""
    return str(text or "").encode("utf-8", "replace").decode()


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
