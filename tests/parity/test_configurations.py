"""Configuration files: what kube-scheduler's own reader accepts and refuses, and why.

The oracle decodes, defaults, validates and builds profiles as kube-scheduler does. It stops at the
first file that cannot be read and at the first plugin that cannot be made, where we go on, and it
has words of its own for what cannot be decoded; everything else must be said in its words.
"""

from __future__ import annotations

import re
from functools import partial

import pytest
import yaml

from stowplan.config.load import parse_config
from stowplan.errors import ConfigError
from stowplan.plugins.registry import in_tree_registry
from stowplan.scheduler.assembly import plugin_errors
from tests.parity.configuration_files import BAD, GOOD, HEADER
from tests.parity.generate.configuration_trees import configuration
from tests.parity.generate.dice import Dice
from tests.parity.oracle import Oracle, OracleError

POD = {
    "metadata": {"name": "p", "namespace": "default", "uid": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
#: Refused here on purpose, although kube-scheduler's reader takes them.
STRICTER = {
    "two documents": f"parallelism: 1\n---\n{HEADER}",
    "points of a feature that is off": "profiles: [{plugins: {placementScore: {enabled: "
    "[{name: NodeResourcesFit}]}}}]",
    "arguments of an unknown plugin that are no mapping": "profiles: [{pluginConfig: "
    "[{name: Foo, args: 3}]}]",
    # kube-scheduler itself refuses this one too, but only when it starts to elect.
    "retries that could miss the deadline": "leaderElection: {renewDeadline: 2s, retryPeriod: 2s}",
}
#: Taken here, although it refuses them.
KINDER = {"a duration that is null": "leaderElection: {leaseDuration: null}"}
FOUND_WHEN_ELECTING = "must be greater than 1.2 times `RetryPeriod`"
FIELD_ERRORS = re.compile(r"\[?[a-z]\S*: [A-Z]")
#: Values of which they show the names that fields have in Go.
SHOWN_OTHERWISE = re.compile(r"queueSort: Invalid|args\.shape: Invalid|pluginConfig\.args: Invalid")
#: Refused by `run`, as extenders are not called yet; read and validated all the same.
NOT_YET = "extenders: Forbidden: extenders are not called yet; remove them to start without"


def theirs(oracle: Oracle, text: str) -> str:
    """kube-scheduler's complaint, empty if it has none."""
    try:
        oracle.ask({"pod": POD, "nodes": [], "pods": [], "config": HEADER + text})
    except OracleError as refused:
        return str(refused).partition("\nto: ")[0].removeprefix("cannot read the configuration: ")
    return ""


def ours(text: str) -> list[str]:
    """Our complaints, a line each."""
    try:
        parse_config(HEADER + text, check=partial(plugin_errors, registry=in_tree_registry()))
    except ConfigError as refused:
        return [line for line in str(refused).split("\n") if line != NOT_YET]
    return []


def path_of(line: str) -> str:
    return line.partition(": ")[0]


def unknown_fields(complaint: str) -> list[str]:
    """The paths that the strict decoder names, arguments with the place of their plugin."""
    found, place = [], ""
    for match in re.finditer(r'decoding \.(\S+):|unknown field "(.*?)"', complaint):
        place = f"{match[1]}.args." if match[1] else place
        if match[2]:
            found.append(place + match[2])
    return found


def in_their_words(line: str) -> str:
    """A line of ours as they would say it."""
    # A guess at what was meant is ours alone.
    line = re.sub(r'; did you mean ".*"\?$', "", line)
    # Go shows paths as {}, and structs with the names of their fields in Go.
    line = re.sub(r'Duplicate value: "profiles\[.*"', "Duplicate value: {}", line)
    return re.sub(r"value: {}: must be", 'value: {"Enabled":null,"Disabled":null}: must be', line)


def left_unsaid(complaint: str, lines: list[str]) -> str:
    """What is in the complaint and in none of our lines."""
    for line in sorted(map(in_their_words, lines), key=len, reverse=True):
        complaint = complaint.replace(line, "", 1)
    return complaint.strip("[], ")


def say_the_same(complaint: str, lines: list[str]) -> bool:
    """Whether the complaint consists of our lines and nothing else."""
    return all(in_their_words(line) in complaint for line in lines) and not left_unsaid(
        complaint, lines
    )


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD)
def test_what_kube_scheduler_takes_we_take(oracle: Oracle, text: str) -> None:
    assert (theirs(oracle, text), ours(text)) == ("", [])


@pytest.mark.parametrize("text", BAD.values(), ids=BAD)
def test_what_kube_scheduler_refuses_we_refuse_for_the_same_reason(
    oracle: Oracle, text: str
) -> None:
    complaint, lines = theirs(oracle, text), ours(text)
    assert complaint
    assert lines, complaint
    paths = [path_of(line) for line in lines]
    if complaint.startswith("strict decoding error: yaml"):
        name = re.findall(r'key "(.*)" already set', complaint)
        assert paths == name
    elif complaint.startswith("strict decoding error"):
        assert sorted(paths) == sorted(unknown_fields(complaint))
    elif match := re.search(r"Go struct field (\S+) of type", complaint):
        assert match[1].rpartition(".")[2] == re.sub(r"\[\d+\]$", "", paths[0]).rpartition(".")[2]
    elif match := re.match(r"decoding \.(\S+):", complaint):
        assert all(path.startswith(f"{match[1]}.args") for path in paths)
    elif match := re.match(r"initializing profiles: .*?: initializing plugin \S+: ", complaint):
        # Made without knowing where its arguments stand.
        place = "profiles[0].pluginConfig[0].args."
        assert all(line.startswith(place) for line in lines)
        rest = complaint.removeprefix(match[0])
        assert say_the_same(rest, [line.removeprefix(place) for line in lines])
    elif complaint.startswith("initializing profiles: "):
        about = re.findall(r'(?:Plugin|plugin) "(\w+)"', complaint)
        assert all(f'"{plugin}"' in lines[0] for plugin in about)
    elif FIELD_ERRORS.match(complaint):
        assert say_the_same(complaint, lines), complaint
    else:
        # Read neither by them nor by us: a duration or base64 that is none.
        assert len(lines) == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_files(oracle: Oracle, seed: int) -> None:
    """Accepted by both or by none; and whatever they find wrong in a value, we find and say."""
    dice = Dice(seed)
    for _ in range(25):
        text = yaml.safe_dump(configuration(dice))
        complaint = theirs(oracle, text)
        lines = [line for line in ours(text) if not line.endswith(FOUND_WHEN_ELECTING)]
        assert bool(complaint) == bool(lines), (text, complaint, lines)
        if FIELD_ERRORS.match(complaint) and not SHOWN_OTHERWISE.search(complaint):
            # We go on to what they would have found later.
            assert left_unsaid(complaint, lines) == "", (text, lines)


@pytest.mark.parametrize("text", STRICTER.values(), ids=STRICTER)
def test_what_only_we_refuse(oracle: Oracle, text: str) -> None:
    assert theirs(oracle, text) == ""
    assert ours(text) != []


@pytest.mark.parametrize("text", KINDER.values(), ids=KINDER)
def test_what_only_they_refuse(oracle: Oracle, text: str) -> None:
    assert theirs(oracle, text) != ""
    assert ours(text) == []


def test_the_table_is_worth_its_name() -> None:
    assert len(GOOD) >= 40
    assert len(BAD) >= 60
    assert all(yaml.safe_load(HEADER + text)["kind"] for text in (*GOOD.values(), *BAD.values()))
