"""Attempts of the ledger: as data, and as a text for people (`stowplan explain POD --at 3`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from stowplan.errors import NotFound
from stowplan.explain.explanation import NodeAnswer
from stowplan.explain.facts import Answer
from stowplan.explain.text import scores_text, seconds_text, wrapped
from stowplan.present.tables import format_table, printable
from stowplan.scheduler.ledger_records import Attempt, Details


class Attempts(Answer, frozen=True):
    """The recorded attempts of a pod, oldest first, without their details."""

    pod: str
    attempts: tuple[Attempt, ...]


class AttemptAnswer(Answer, frozen=True):
    """One recorded attempt with its details."""

    attempt: Attempt
    #: The number of the pod's latest attempt.
    of: int


def chosen_attempt(key: str, found: Sequence[Attempt], number: int) -> AttemptAnswer:
    """The latest attempt with that number; NotFound says which there are."""
    if not found:
        raise NotFound(f'the ledger has no attempt of pod "{key}"')
    for attempt in reversed(found):
        if attempt.attempt == number:
            same = [each.attempt for each in found if each.uid == attempt.uid]
            return AttemptAnswer(attempt, max(same))
    numbers = [each.attempt for each in found]
    first, last = min(numbers), max(numbers)
    there = f"attempts {first} to {last}" if first < last else f"attempt {first}"
    raise NotFound(f'the ledger has no attempt {number} of pod "{key}": it has {there}')


def attempt_text(said: AttemptAnswer, now: float) -> str:
    """The whole attempt, ending in a newline; `now` is the wall time."""
    return "\n".join(_blocks(said, now))


def _blocks(said: AttemptAnswer, now: float) -> Iterator[str]:
    attempt, details = said.attempt, said.attempt.details or Details()
    total = details.evaluated_nodes
    when = datetime.fromtimestamp(attempt.time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    yield wrapped(
        f"{attempt.pod}, attempt {attempt.attempt} of {said.of}, {when}: {_result(attempt)}."
    )
    if attempt.message:
        yield wrapped(attempt.message)
    if asked := _asked(details):
        yield wrapped(asked)
    if details.reasons:
        rows = [
            (each.nodes, each.plugin, each.reason, _names(each.names, each.names_left_out))
            for each in details.reasons
        ]
        if attempt.node:
            yield wrapped(f"It fitted on {details.feasible_nodes} of {total} nodes. The others:")
        yield format_table(("NODES", "PLUGIN", "REASON", "NAMES"), rows)
    elif attempt.node and total:
        yield wrapped(f"It fitted on {details.feasible_nodes} of {total} nodes.")
    if details.eviction is not None:
        victims = ", ".join(details.eviction.victims)
        more = details.eviction.victims_left_out
        rest = f" and {more} more" if more else ""
        yield wrapped(f"To make room on {details.eviction.node}, evict {victims}{rest}.")
    if details.scores:
        best = [NodeAnswer(e.node, (), e.total, e.by_plugin) for e in details.scores]
        yield scores_text("Best nodes, the chosen one first:", best)
    if details.is_shortened:
        yield "Some details were left out, because there were too many attempts.\n"
    waited = f"{seconds_text(details.waited)} in the queue" if details.waited else ""
    parts = [f"{name} {seconds_text(took)}" for name, took in details.durations.items()]
    if waited or parts:
        yield wrapped(f"Durations: {', '.join([waited, *parts] if waited else parts)}.")
    retry = _retry(attempt, now, is_latest=attempt.attempt == said.of)
    if retry:
        yield wrapped(retry)


def _result(attempt: Attempt) -> str:
    took = f"after {seconds_text(attempt.seconds)}"
    if attempt.result == "scheduled":
        return f"bound to {printable(attempt.node)} {took}"
    if attempt.result == "binding":
        return f"{printable(attempt.node)} is chosen, and the pod is not bound yet"
    return f"{attempt.result} {took}"


def _asked(details: Details) -> str:
    """What the pod asked for, in a sentence."""
    asked = ", ".join(f"{amount} {name}" for name, amount in details.requests.items())
    parts = [f"asked for {printable(asked)}"] if asked else []
    if details.priority:
        parts.append(f"had priority {details.priority}")
    if details.constraints:
        parts.append(f"set {', '.join(details.constraints)}")
    return f"It {' and '.join(parts)}." if parts else ""


def _names(names: str, left_out: int) -> str:
    shown = names if len(names) <= 60 else f"{names[:57]}..."
    if names == "*":
        shown = "all nodes"
    return f"{shown} and {left_out} more" if left_out else shown


def _retry(attempt: Attempt, now: float, *, is_latest: bool) -> str:
    plugins = " or ".join(attempt.retried_by)
    due, backoff = attempt.retry_by, attempt.backoff_until
    if not plugins and backoff is not None:
        due = backoff  # no event is waited for
    if due is None:
        return ""
    event = f", or when something changes that {plugins} waits for" if plugins else ""
    if is_latest and due > now:
        least = ""
        if plugins and backoff is not None and backoff > now:
            least = f", not before {seconds_text(backoff - now)}"
        return f"Next try in {seconds_text(due - now)}{event}{least}."
    return f"The next try was due within {seconds_text(due - attempt.time)}{event}."
