"""The ledger's budget holds whatever comes, the newest attempts stay, and names fold losslessly."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from stowplan.clock import VirtualClock
from stowplan.queue.pod import QueuedPod
from stowplan.scheduler.ledger import ENTRY_BYTES, Ledger, _undecided
from stowplan.scheduler.node_names import fold_names
from stowplan.testing import pod

#: A pod, the size of its details, its message, and whether the attempt ends at once.
ATTEMPTS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2_000), st.text(max_size=50), st.booleans()),
    max_size=60,
)


@given(budget=st.integers(0, 20_000), attempts=ATTEMPTS)
def test_the_budget_holds_and_the_oldest_go_first(
    budget: int, attempts: list[tuple[int, int, str, bool]]
) -> None:
    ledger = Ledger(VirtualClock(), budget)
    under_way: list[QueuedPod] = []
    for number, (name, size, message, ends) in enumerate(attempts):
        queued = QueuedPod(pod(f"pod-{name}"), 0.0, attempts=number)
        entry = _undecided(queued, 0.0)
        entry.decision, entry.size = b" " * size, ENTRY_BYTES + size
        ledger._add(queued, entry)
        under_way.append(queued)
        if ends:
            for each in under_way:
                ledger.ended(each, "unschedulable", 0.0, message)
            under_way.clear()
        kept = list(ledger)
        assert ledger.size == sum(entry.size for entry in kept) <= budget
        assert all(entry.size >= ENTRY_BYTES + len(entry.decision) for entry in kept)
        numbers = [entry.attempt for entry in kept]
        assert numbers == list(range(number + 1 - len(kept), number + 1))
        for key in {f"default/pod-{each}" for each in range(6)}:
            assert ledger.of_pod(key) == [entry for entry in kept if entry.key == key]


NAMES = st.sets(
    st.from_regex(r"\A[a-c]([a-b0-9.-]{0,4}[a-b0-9])?\Z")
    | st.integers(0, 120).map(lambda number: f"worker-{number}")
)


def unfolded(text: str) -> list[str]:
    names: list[str] = []
    for stem, inside, plain in re.findall(r"([^,\[]*)\[([^\]]*)\]|([^,\[\]]+)", text):
        if plain:
            names.append(plain)
            continue
        for part in inside.split(","):
            first, _, last = part.partition("-")
            names += [f"{stem}{number}" for number in range(int(first), int(last or first) + 1)]
    return names


@given(names=NAMES)
def test_folded_names_unfold_to_the_same_names(names: set[str]) -> None:
    text, left_out = fold_names(names, 100_000)
    assert left_out == 0
    assert sorted(unfolded(text)) == sorted(names)


@given(names=NAMES, most=st.integers(0, 60))
def test_what_does_not_fit_is_counted(names: set[str], most: int) -> None:
    text, left_out = fold_names(names, most)
    assert len(text) <= most
    assert len(unfolded(text)) + left_out == len(names)
