"""An explanation for people: the cause first, then the numbers, then what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from textwrap import fill

from stowplan.explain.explanation import (
    Comparison,
    Explanation,
    NodeAnswer,
    State,
    Waiting,
)
from stowplan.present.tables import format_figures, format_table, printable

_WIDTH = 100
#: Kinds of fixes that change the pod.
_EDITS = {"Request", "Toleration", "TopologySpread", "PodAffinity"}

_NO_SEARCH = "No changes were looked for (--fix), because {}."


def explanation_text(said: Explanation, columns: int = 0, options: Sequence[str] = ()) -> str:
    """The whole answer, ending in a newline. `columns`: of the terminal; 0 if it is none.

    `options` name the same cluster and configuration in a command that is shown.
    """
    return "\n".join(_blocks(said, columns, options))


def _blocks(said: Explanation, columns: int, options: Sequence[str]) -> Iterator[str]:
    def text(sentences: str) -> str:
        return wrapped(sentences, columns=columns)

    yield text(said.summary)
    if said.state in (State.FINISHED, State.TERMINATING):
        if said.fixes is not None:
            yield text(_NO_SEARCH.format("it needs no node"))
        return
    preemption = said.preemption
    if preemption is not None and preemption.would_help:
        yield text(preemption.text)
    if said.advice:
        yield text(said.advice)
    if said.nearest:
        yield _reasons(said, columns)
        yield "Nearest nodes:\n" + "".join(_nearest(each, columns) for each in said.nearest)
    if said.best:
        yield scores_text("Best nodes:", said.best)
    evictable = any(reason.eviction_may_help for reason in said.reasons)
    if preemption is not None and evictable and not preemption.would_help:
        yield text(preemption.text)
    if said.waiting is not None:
        waiting = _waiting(said.waiting, said.retried_on)
        if waiting:
            yield text(waiting)
    elif said.retried_on:
        yield text(f"It is tried again when {_any_of(said.retried_on)}.")
    if said.last_message and said.state in (State.PENDING, State.NOMINATED):
        yield text(f"Its scheduler, {said.scheduler}, said last: {said.last_message}")
    if said.fixes is not None and (said.feasible_nodes or said.state is State.SCHEDULED):
        yield text(_NO_SEARCH.format(_why_no_search(said)))
    elif said.feasible_nodes:
        return
    elif said.fixes is not None:
        yield "".join(_fixes(said, columns))
    elif said.nearest and said.state is State.PENDING:
        yield f"See what would help:  stowplan explain {_arguments(said.pod, options)} --fix\n"


def _why_no_search(said: Explanation) -> str:
    if said.state is State.SCHEDULED:
        return "it is bound already"
    if said.state is State.GATED:
        return "it fits without its gates"
    return "it fits, as far as is known" if said.cause else "it fits"


def _fixes(said: Explanation, columns: int) -> Iterator[str]:
    fixes = said.fixes or ()
    if not fixes:
        nothing = "No change of the kinds that Stowplan tries would place it (docs/explain.md)."
        yield wrapped(nothing, columns=columns)
        return
    yield "Any one of these makes it fit:\n" if len(fixes) > 1 else "This makes it fit:\n"
    for number, fix in enumerate(fixes, start=1):
        line = f"{number}. {fix.text}: it fits on {fix.node}"
        yield wrapped(line, "  ", "     ", columns=columns)
        if fix.command:  # in one line, to be copied
            yield f"       {printable(fix.command)}\n"
    kinds = {kind for fix in fixes for kind in fix.kind.split("+")}
    if kinds & _EDITS and (said.owner or kinds & _EDITS != {"Toleration"}):
        yield wrapped(_where_to_edit(said.owner), columns=columns)
    if "Eviction" in kinds:
        yield wrapped("Another pending pod may take room that an eviction makes.", columns=columns)


def _where_to_edit(owner: str) -> str:
    kind = owner.partition("/")[0]
    if not owner:
        return "The pod has no owner: delete it, and create it from its manifest with the change."
    if kind == "job":
        return f"The pods of {owner} cannot be changed: create the Job again with the change."
    return f"It comes from {owner}: make the change there, and in the manifest that it has."


def _arguments(pod: str, options: Sequence[str]) -> str:
    namespace, _, name = pod.partition("/")
    return printable(shlex.join([name, "-n", namespace, *options]))


def _reasons(said: Explanation, columns: int) -> str:
    rows = [
        (reason.nodes, reason.plugin, reason.reason, _examples(reason.examples, reason.nodes))
        for reason in said.reasons
    ]
    table = format_table(("NODES", "PLUGIN", "REASON", "SUCH AS"), rows)
    lines = [
        f"{count_text(count, 'node')}: {reason} ({plugin}): {some}"
        for count, plugin, reason, some in rows
    ]
    return table_or_list(table, lines, columns)


def count_text(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def table_or_list(table: str, items: Sequence[str], columns: int) -> str:
    """The table, or the items as lines if the terminal is narrower than that."""
    if not columns or max(map(len, table.splitlines())) <= columns:
        return table
    return "".join(wrapped(each, "", "  ", columns=columns) for each in items)


def _examples(names: Sequence[str], count: int) -> str:
    return ", ".join(names) + (", ..." if count > len(names) and names else "")


def _nearest(answer: NodeAnswer, columns: int) -> str:
    said = (each.detail or f"{each.reason} ({each.plugin})" for each in answer.obstacles)
    lines = (wrapped(each, "    ", "      ", columns=columns) for each in said)
    return "".join([f"  {printable(answer.node)}\n", *lines])


def scores_text(title: str, answers: Sequence[NodeAnswer]) -> str:
    """A column for each node, a row for each plugin: names of plugins are long."""
    lines = [["", *(printable(each.node) for each in answers)]]
    lines += [
        [plugin, *(str(each.scores.get(plugin, "-")) for each in answers)]
        for plugin in answers[0].scores
    ]
    lines.append(["total", *(str(each.total) for each in answers)])
    return f"{title}\n{format_figures(lines)}\n"


def comparison_text(said: Comparison, columns: int = 0) -> str:
    """Every plugin's verdict and score on a node, beside the best node's."""
    return "\n".join(_comparison(said, columns))


def _comparison(said: Comparison, columns: int) -> Iterator[str]:
    node = said.node
    rows = [(each.plugin, each.detail or each.reason) for each in node.obstacles]
    rows += [(name, "accepts it") for name in said.accepted_by]
    if node.obstacles:
        count = len(node.obstacles)
        plugins = "a plugin refuses it" if count == 1 else f"{count} plugins refuse it"
        yield wrapped(f"{said.pod} does not fit on {node.node}: {plugins}.", columns=columns)
    elif said.best is not None and said.best.node == node.node:
        yield wrapped(f"{said.pod} fits on {node.node}, which is the best node.", columns=columns)
    else:
        yield wrapped(f"{said.pod} fits on {node.node}.", columns=columns)
    if said.note:
        yield wrapped(said.note, columns=columns)
    table = format_table(("PLUGIN", "VERDICT"), rows)
    yield table_or_list(table, [f"{plugin}: {verdict}" for plugin, verdict in rows], columns)
    scored = [each for each in (node, said.best) if each is not None and each.total is not None]
    if len(scored) == 2 and scored[0].node == scored[1].node:
        scored = scored[:1]
    if scored:
        yield scores_text(
            "Scores:" if len(scored) == 1 else "Scores beside the best node's:", scored
        )


def _waiting(said: Waiting, events: Sequence[str]) -> str:
    """The pod's place in the queue, and what brings the next attempt."""
    ago = seconds_text(said.seconds)
    tried = f"Attempt {said.attempts} failed {ago} ago" if said.attempts else f"Queued {ago} ago"
    match said.place:
        case "active":
            return f"{tried}; it is in the queue, and its turn comes next."
        case "backoff":
            return f"{tried}; next try in {seconds_text(said.next_try_seconds or 0.0)} (backoff)."
        case "unschedulable":
            when = f", or when {_any_of(events)}" if events else ""
            left = said.backoff_seconds
            least = f" Events count after its backoff, in {seconds_text(left)}." if left else ""
            return (
                f"{tried}; next try in {seconds_text(said.next_try_seconds or 0.0)}{when}.{least}"
            )
        case "gated":
            told = f": {said.message}" if said.message else ""
            return f"{', '.join(said.plugins)} keeps it out of the queue{told}."
        case "permit":
            return f"Attempt {said.attempts} found it a node {ago} ago."
        case _:
            return f"Attempt {said.attempts} is under way."


def seconds_text(seconds: float) -> str:
    """`3.2 ms`, `12 s`, `4 min 48 s`, `2 h 5 min`."""
    if seconds < 1:
        return f"{seconds * 1e3:.2g} ms" if seconds < 0.01 else f"{seconds * 1e3:.0f} ms"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    first, second, names = divmod(whole, 60), divmod(whole // 60, 60), ("min", "s")
    if whole >= 3600:
        first, names = second, ("h", "min")
    return f"{first[0]} {names[0]} {first[1]} {names[1]}"


def _any_of(events: Sequence[str]) -> str:
    *first, last = events
    return f"{', when '.join(first)}, or when {last}" if first else last


def wrapped(text: str, indent: str = "", further: str = "", *, columns: int = 0) -> str:
    """Lines of text that a terminal can show, ending in a newline."""
    lines = fill(
        printable(text),
        min(_WIDTH, max(columns, 20)) if columns else _WIDTH,
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{lines}\n"
