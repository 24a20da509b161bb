"""`stowplan decide` through the console entry point: lines in, lines out, exit codes."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from stowplan.cli.main import main
from stowplan.testing import as_manifest
from stowplan.testing import node as make_node
from stowplan.testing import pod as make_pod
from tests.unit.judge.malformed import GOOD

Json: TypeAlias = dict[str, Any]

NODES = [as_manifest(make_node("a", cpu=4)), as_manifest(make_node("b", cpu=1))]
POD = as_manifest(make_pod("p", cpu=2, uid="p"))
QUESTION: Json = {"objects": NODES, "pod": POD}


class Ran:
    """What a run of the command came to."""

    def __init__(self, code: object, out: str, err: str) -> None:
        self.code = code
        self.lines = out.splitlines()
        self.err = err

    @property
    def answers(self) -> list[Json]:
        return [json.loads(line) for line in self.lines]

    @property
    def answer(self) -> Json:
        (only,) = self.answers
        return only

    @property
    def error(self) -> str:
        assert self.code == 1
        error: str = self.answer["error"]
        return error


class Decide:
    """The command with this on its standard input."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        self._monkeypatch = monkeypatch
        self._captured = capfdbinary

    def __call__(self, *lines: Json | str | bytes, flags: tuple[str, ...] = ()) -> Ran:
        texts = [
            line if isinstance(line, bytes) else _text(line).encode("utf-8", "surrogatepass")
            for line in lines
        ]
        stdin = io.TextIOWrapper(io.BytesIO(b"".join(text + b"\n" for text in texts)))
        self._monkeypatch.setattr("sys.stdin", stdin)
        return self.run(*flags)

    def run(self, *argv: str) -> Ran:
        with pytest.raises(SystemExit) as ended:
            main(["decide", *argv])
        out, err = self._captured.readouterr()
        return Ran(ended.value.code, out.decode(), err.decode())


def _text(line: Json | str) -> str:
    return line if isinstance(line, str) else json.dumps(line)


@pytest.fixture
def decide(monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Decide:
    return Decide(monkeypatch, capfdbinary)


def test_answers_move_no_cursor(decide: Decide) -> None:
    ran = decide({**QUESTION, "pod": {"metadata": {"name": "é\x7f\x9b31m"}}})
    assert "Pod default/é\x7f\x9b31m" in ran.error
    assert "é" in ran.lines[0]
    assert ran.lines[0].isprintable()


def test_a_question_and_its_answer(decide: Decide) -> None:
    ran = decide({"id": "first", **QUESTION})
    assert (ran.code, ran.err) == (0, "")
    assert ran.answer["id"] == "first"
    assert ran.answer["nodes"]["a"] == {"code": "Success"}
    assert ran.answer["best"] == ["a"]


def test_a_file_and_the_dash(decide: Decide, tmp_path: Path) -> None:
    file = tmp_path / "questions"
    file.write_text(json.dumps(QUESTION) + "\n\n" + json.dumps(QUESTION))
    ran = decide.run(str(file))
    assert [answer["id"] for answer in ran.answers] == [1, 3], "a blank line has a number too"
    assert decide(QUESTION, flags=("-",)).lines == ran.lines[:1]


@pytest.mark.parametrize("given", ["null", "0", '"a"', '["x",{"y":[]}]', "1e400", '"\\u00e4"'])
def test_an_id_is_echoed_as_it_is(decide: Decide, given: str) -> None:
    ran = decide('{"id": ' + given + ', "objects": [], "pod": ' + json.dumps(POD) + "}")
    assert ran.lines == ['{"id":' + given + ',"nodes":{}}']


def test_a_byte_order_mark_is_no_part_of_the_first_line(decide: Decide) -> None:
    assert decide(b"\xef\xbb\xbf" + json.dumps(QUESTION).encode()).code == 0


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"id": 1', "line 1, column 9: Expecting ',' delimiter"),
        ("nonsense", "line 1, column 1: Expecting value"),
        ('{"id": 7, "pod": {},}', "line 1, column 21: "),
        (b'{"id": "\xff"}', "line 1, column 9: is not UTF-8 text"),
        ("[1, 2]", "line 1: expected an object, got a list"),
        ('"x"', "line 1: expected an object, got a string"),
        ("null", "line 1: expected an object, got null"),
        ('{"objects": []}', "pod: Required value"),
        ({"pod": POD}, "objects: Required value"),
        ({"objects": {}, "pod": POD}, "objects: expected a list, got an object"),
        ({"objects": [], "pod": [1]}, "pod: expected an object, got a list"),
        ({"objects": [], "pod": GOOD["Node"]}, "pod: kind: expected a Pod, got a Node"),
        ({"objects": [], "pod": {"kind": "List", "items": []}}, "pod: kind: expected a Pod"),
        ({"object": NODES, "pod": POD}, 'object: unknown key; did you mean "objects"?'),
        ({**QUESTION, "zebra": 1}, "zebra: unknown key (known here: id, config, objects, pod)"),
        ({"objects": [7], "pod": POD}, "objects[0]: expected an object, got a number"),
        ({"objects": [{}], "pod": POD}, "objects[0]: apiVersion: Required value"),
        ({"objects": [{"apiVersion": "v1"}], "pod": POD}, "objects[0]: kind: Required value"),
        ({"objects": [{"apiVersion": 1, "kind": "Pod"}], "pod": POD}, "apiVersion: expected a"),
        (
            {"objects": [{"apiVersion": "v1", "kind": "Pood"}], "pod": POD},
            'objects[0]: kind: no kind "Pood" is registered for version "v1"; did you mean "Pod"?',
        ),
        (
            {"objects": [{"apiVersion": "v1", "kind": "StorageClass"}], "pod": POD},
            'for version "v1"; did you mean apiVersion "storage.k8s.io/v1"?',
        ),
        (
            {"objects": [{"apiVersion": "v1", "kind": "List", "items": [7]}], "pod": POD},
            "objects[0].items[0]: expected an object, got a number",
        ),
        (
            {"objects": [*NODES, NODES[0]], "pod": POD},
            'objects[2]: Node a: metadata.name: Duplicate value: "a": objects[0] has the same name',
        ),
        (
            {
                "objects": [
                    as_manifest(make_pod("x", uid="u", node="a")),
                    as_manifest(make_pod("y", uid="u", node="a")),
                ],
                "pod": POD,
            },
            "Pod default/y: metadata.uid: Duplicate value: also of Pod default/x",
        ),
    ],
)
def test_a_bad_line_says_what_is_wrong(
    decide: Decide, line: Json | str | bytes, error: str
) -> None:
    assert error in decide(line).error


def test_nesting_without_end(decide: Decide) -> None:
    deep = '{"id": 4, "objects": [], "pod": ' + "[" * 200_000 + "]" * 200_000 + "}"
    ran = decide(deep, {"id": 5, **QUESTION})
    assert "nested too deeply" in ran.answers[0]["error"]
    assert "error" not in ran.answers[1]


def test_the_next_line_is_answered(decide: Decide) -> None:
    ran = decide("junk", {"id": 2, **QUESTION}, {"id": 3, "pod": POD}, {"id": 4, **QUESTION})
    assert ran.code == 1
    assert ["error" in answer for answer in ran.answers] == [True, False, True, False]
    assert ran.answers[1]["totals"] == ran.answers[3]["totals"]


# Configurations


def test_a_configuration_decides_which_plugins_have_a_say(decide: Decide) -> None:
    plugins = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }
    answer = decide({**QUESTION, "config": config}).answer
    assert answer["nodes"]["b"] == {"code": "Success"}
    assert "NodeResourcesFit" not in answer["scores"]["a"]
    assert decide({**QUESTION, "config": {}}).lines == decide(QUESTION).lines


def test_the_profile_of_the_pods_scheduler_name(decide: Decide) -> None:
    fit = {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}
    config: Json = {
        "profiles": [{"schedulerName": "one"}, {"schedulerName": "two", "plugins": fit}]
    }

    def feasible(scheduler_name: str, config: Json) -> list[str]:
        pod = {**POD, "spec": {**POD["spec"], "schedulerName": scheduler_name}}
        return list(decide({**QUESTION, "config": config, "pod": pod}).answer.get("scores", ()))

    assert feasible("one", config) == ["a"]
    assert feasible("two", config) == ["a", "b"]
    assert feasible("", config) == ["a"], "the first"
    assert feasible("three", {"profiles": config["profiles"][1:]}) == ["a", "b"], "no choice"
    ran = decide({**QUESTION, "config": config})
    assert ran.error == (
        'pod: spec.schedulerName: Invalid value: "default-scheduler": no profile has that name'
        " (there are one, two)"
    )


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (7, "config: expected an object, got a number"),
        ({"kind": "Pod"}, "config: kind: Invalid value"),
        ({"profilez": []}, 'config: profilez: unknown field; did you mean "profiles"?'),
        ({"percentageOfNodesToScore": 101}, "config: percentageOfNodesToScore: Invalid value: 101"),
        ({"extenders": [{"urlPrefix": "http://x"}]}, "config: extenders"),
        (
            {"profiles": [{"plugins": {"score": {"enabled": [{"name": "NodeNumbr"}]}}}]},
            'config: profiles[0].plugins.score.enabled[0].name: Invalid value: "NodeNumbr"',
        ),
        (
            {"profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": {"zebra": 1}}]}]},
            "config: profiles[0].pluginConfig[0].args.zebra: unknown field",
        ),
    ],
)
def test_a_bad_configuration(decide: Decide, config: Any, error: str) -> None:
    assert error in decide({**QUESTION, "config": config}).error


# Objects as given, or completed


def test_limits_become_requests_only_with_defaults(decide: Decide) -> None:
    pod = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]
        },
    }
    line = {"objects": NODES, "pod": pod}
    assert decide(line).answer["nodes"]["b"]["code"] == "Success"
    assert decide(line, flags=("--defaults",)).answer["nodes"]["b"]["plugin"] == "NodeResourcesFit"


def test_unknown_fields_are_warned_of_once(decide: Decide) -> None:
    pod = {**POD, "spec": {**POD["spec"], "nodeSelektor": {"a": "b"}}}
    ran = decide({**QUESTION, "pod": pod}, {**QUESTION, "pod": pod})
    assert ran.code == 0
    assert ran.err == ('Warning: line 1: pod: Pod default/p: unknown field "spec.nodeSelektor"\n')


def test_warnings_come_to_an_end(decide: Decide) -> None:
    spec = {**POD["spec"], **{f"x{number}": 1 for number in range(50)}}
    err = decide({**QUESTION, "pod": {**POD, "spec": spec}}).err
    assert err.count("\n") == 21
    assert err.endswith("Warning: further warnings are not shown\n")


# As a program


def test_the_stream_flag(decide: Decide) -> None:
    ran = decide(
        {"apply": NODES[:1]},
        {"pod": POD},
        {"delete": [{"kind": "Node", "name": "a"}], "apply": NODES[1:], "pod": POD},
        flags=("--stream",),
    )
    assert ran.answers[0] == {"id": 1}
    assert ran.answers[1]["best"] == ["a"]
    assert ran.answers[2]["nodes"].keys() == {"b"}


def test_usage(decide: Decide, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    ran = decide.run(str(missing))
    assert (ran.code, ran.err) == (
        2,
        f"Error: {missing}: cannot be read: No such file or directory\n",
    )
    assert decide.run(str(tmp_path)).code == 2
    assert decide.run("--zebra").code == 2
    assert "docs/decide.md" in "".join(decide.run("--help").lines)


def test_each_answer_comes_before_the_next_question() -> None:
    with _Program("--stream") as running:
        for number in (1, 2, 3):
            running.ask({"apply": NODES})
            assert running.answer()["id"] == number


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    file = tmp_path / "questions"
    file.write_text((json.dumps(QUESTION) + "\n") * 3000)
    process = subprocess.Popen(
        [sys.executable, "-m", "stowplan", "decide", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


class _Program:
    """The command as a process of its own, asked through pipes."""

    def __init__(self, *flags: str, code: int = 0) -> None:
        self._flags = flags
        self._code = code

    def __enter__(self) -> _Program:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "stowplan", "decide", *self._flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)
        assert self._process.returncode == self._code

    def ask(self, line: Json) -> None:
        self.send(json.dumps(line))

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Json:
        assert self._process.stdout is not None
        answer: Json = json.loads(self._process.stdout.readline())
        return answer


# Progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_file_shows_how_far_it_is(
    decide: Decide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "questions"
    file.write_text((json.dumps(QUESTION) + "\n") * 4)
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    seconds = itertools.count()
    monkeypatch.setattr("stowplan.cli.decide.time.monotonic", lambda: float(next(seconds)))
    assert decide.run(str(file)).code == 0
    shown = terminal.getvalue().replace("\x1b[2K", "").split("\r")
    assert shown[1:3] == ["line 1, 25%", "line 2, 50%"]
    assert shown[-1] == "", "nothing is left in the end"


def test_a_pipe_shows_no_progress(decide: Decide, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("stowplan.cli.decide._PROGRESS_AFTER_S", -1.0)
    read, write = os.pipe()
    os.write(write, json.dumps(QUESTION).encode())
    os.close(write)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert decide.run().code == 0
    assert terminal.getvalue() == ""


# YAML, indented JSON, and files that are neither


AS_YAML = yaml.safe_dump({"id": "first", **QUESTION})


def in_file(decide: Decide, folder: Path, text: str | bytes) -> Ran:
    file = folder / "questions"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return decide.run(str(file))


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (AS_YAML, ["first"]),
        (f"# a comment\n---\n{AS_YAML}", ["first"]),
        (f"{AS_YAML}---\n{AS_YAML}...\n# the end\n---\n", ["first", "first"]),
        (json.dumps({"id": 1, **QUESTION}, indent=2), [1]),
        (json.dumps({"id": 1, **QUESTION}, indent=2) + "\n" + json.dumps(QUESTION), [1, 61]),
        (json.dumps(QUESTION) + "\n" + json.dumps(QUESTION, indent="\t"), [1, 2]),
        (f"{json.dumps(QUESTION)}\n---\n{AS_YAML}{json.dumps(QUESTION)}\n", [1, "first", 63]),
    ],
)
def test_questions_in_yaml_and_in_indented_json(
    decide: Decide, tmp_path: Path, text: str, ids: list[object]
) -> None:
    (expected,) = decide(QUESTION).answers
    ran = in_file(decide, tmp_path, text)
    assert (ran.code, ran.err) == (0, "")
    assert [answer.pop("id") for answer in ran.answers][:1] == ids[:1]
    assert len(ran.answers) == len(ids)
    assert all(answer["totals"] == expected["totals"] for answer in ran.answers)


def test_a_timestamp_in_yaml_is_text(decide: Decide, tmp_path: Path) -> None:
    dated = re.sub(r"( +)name: a\n", r"\g<0>\1creationTimestamp: 2026-01-02T03:04:05Z\n", AS_YAML)
    assert dated != AS_YAML
    assert in_file(decide, tmp_path, dated).code == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('{\n  "id": 1,\n  "pod": {},\n}', "line 4, column 1: "),
        ('{\n  "id": "\\u00e4", "pod": nul\n}', "line 2, column "),
        (b'{\n  "id": "\xff"\n}', "line 2, column 10: is not UTF-8 text"),
        ("id: 1\npod:\n  - a\n b: c\n", "line 4, column 2: "),
        ("id: 1\npod: {a: [}\n", "line 2, column 11: "),
        ("id: 1\n? [a, b]\n: c\n", "line 2, column 3: "),
        ("kind: Node\napiVersion: v1\n", "this is an object of the cluster, not a question. Fix: "),
        (json.dumps(NODES[0], indent=2), "this is an object of the cluster, not a question. Fix: "),
    ],
)
def test_the_place_of_a_mistake(
    decide: Decide, tmp_path: Path, text: str | bytes, error: str
) -> None:
    assert error in in_file(decide, tmp_path, text).error


@pytest.mark.parametrize("broken", ['{"id": 1', '{"id": "x', "pod:\n  - a\n b: c", "junk", "["])
def test_a_broken_question_does_not_spoil_the_next(
    decide: Decide, tmp_path: Path, broken: str
) -> None:
    ran = in_file(decide, tmp_path, f"{broken}\n{json.dumps({'id': 'next', **QUESTION})}\n")
    assert ["error" in answer for answer in ran.answers] == [True, False]


def test_a_broken_line_is_answered_before_the_next_question() -> None:
    with _Program(code=1) as running:
        for text in ("junk", '{"id": "x', '{"a": 1}}'):
            running.send(text)
            assert "error" in running.answer()


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"", "has no question. Fix: write a question in JSON or YAML, see docs/decide.md"),
        (b"\n\n# nothing\n", "has no question. Fix: "),
        (b"\x1f\x8b\x08\x00\x00", "is not text. Fix: "),
        (b"\x89PNG\xff\xfe\n\n", "is not text. Fix: "),
    ],
)
def test_a_file_without_questions(decide: Decide, tmp_path: Path, text: bytes, error: str) -> None:
    ran = in_file(decide, tmp_path, text)
    assert (ran.code, ran.lines, ran.err.count("\n")) == (2, [], 1)
    assert error in ran.err


def test_a_file_that_cannot_be_read(decide: Decide, tmp_path: Path) -> None:
    ran = decide.run(str(tmp_path))
    assert (ran.code, ran.err) == (2, f"Error: {tmp_path}: cannot be read: Is a directory\n")


def test_an_empty_pipe_is_no_mistake(decide: Decide) -> None:
    assert decide().code == 0
