"""CSV traces: our plain layout, and rows as ugly as they come."""

from __future__ import annotations

import csv
import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stowplan.errors import ConfigError
from stowplan.sim.traces.csv_trace import read_nodes, read_pods
from stowplan.sim.traces.layout import POD_FIELDS
from stowplan.sim.traces.model import RUN_SECONDS, Arrival

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "trace.csv"


def write(file: Path, text: str | bytes) -> Path:
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def arrivals(file: Path, **options: Any) -> list[Arrival]:
    return list(read_pods(file, **options).arrivals())


def names(file: Path, **options: Any) -> list[str]:
    return [each.manifest["metadata"]["name"] for each in arrivals(file, **options)]


def requests(arrival: Arrival) -> dict[str, str]:
    found: dict[str, str] = arrival.manifest["spec"]["containers"][0]["resources"]["requests"]
    return found


def test_the_example() -> None:
    trace = read_pods(EXAMPLES / "pods.csv")
    assert (trace.pods, trace.reading.read, trace.reading.broken) == (28, 6, 0)
    classes = [(each["metadata"]["name"], each["value"]) for each in trace.objects()]
    assert classes == [("priority-minus-10", -10), ("priority-1000", 1000)]
    made = {each.manifest["metadata"]["name"]: each for each in trace.arrivals()}
    database = made["db-0"].manifest
    assert database["metadata"]["labels"] == {"app": "db", "tier": "back"}
    assert database["spec"]["priorityClassName"] == "priority-1000"
    assert database["spec"]["nodeSelector"] == {"disk": "ssd"}
    assert database["spec"]["restartPolicy"] == "Always"
    assert made["db-0"].run_s is None
    assert {f"web-{number}" for number in range(4)} < made.keys()
    assert (made["resize-19"].at, made["resize-19"].run_s) == (90.0, 45.0)
    training = made["train-a"].manifest
    assert training["metadata"]["annotations"] == {RUN_SECONDS: "1800"}
    assert requests(made["train-a"]) == {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert training["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    terms = training["spec"]["affinity"]["nodeAffinity"]
    wanted = {"key": "gpu-model", "operator": "In", "values": ["L4", "A10"]}
    assert terms == {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [wanted]}]
        }
    }
    assert "quoted-name-7" in made


def test_the_example_of_nodes() -> None:
    trace = read_nodes(EXAMPLES / "nodes.csv")
    made = {each["metadata"]["name"]: each for each in trace.objects()}
    assert list(made) == ["plain-0", "plain-1", "plain-2", "fast-0", "fast-1", "gpu"]
    assert trace.nodes == 6
    assert made["gpu"]["status"]["allocatable"] == {
        "cpu": "16",
        "memory": "64Gi",
        "nvidia.com/gpu": "2",
        "pods": "110",
    }
    assert made["gpu"]["spec"]["taints"][0]["effect"] == "NoSchedule"
    assert made["fast-1"]["metadata"]["labels"]["topology.kubernetes.io/zone"] == "zone-b"


def test_rows_in_any_order_arrive_in_order(file: Path) -> None:
    write(file, "arrival,name\n30,c\n10,a\n20,b\n10,a2\n")
    assert names(file) == ["a", "a2", "b", "c"]


def test_pods_that_are_alike_share_their_spec(file: Path) -> None:
    write(file, "name,cpu\n" + "".join(f"p{number},{1 + number % 2}\n" for number in range(100)))
    assert len({id(each.manifest["spec"]) for each in arrivals(file)}) == 2


def test_namespaces_are_made(file: Path) -> None:
    write(file, "name,namespace\na,prod\na,\n")
    trace = read_pods(file)
    assert [each["metadata"]["name"] for each in trace.objects()] == ["prod"]
    assert [each.manifest["metadata"]["namespace"] for each in trace.arrivals()] == [
        "prod",
        "default",
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfname,cpu\r\na,1\r\n\r\nb,2\r\n",
        b'"name","cpu"\n"a","1"\n"b","2"',
        b" name , cpu \n a , 1 \n\n\n b , 2 \n",
    ],
    ids=["byte order mark and CRLF", "quotes and no newline at the end", "blanks"],
)
def test_dialects(file: Path, data: bytes) -> None:
    write(file, data)
    assert [requests(each) for each in arrivals(file)] == [{"cpu": "1"}, {"cpu": "2"}]


def test_packed_files(tmp_path: Path) -> None:
    data = b"name\na\nb\n"
    (tmp_path / "trace.csv.gz").write_bytes(gzip.compress(data))
    with tarfile.open(tmp_path / "trace.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("inner.csv")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    assert names(tmp_path / "trace.csv.gz") == names(tmp_path / "trace.tar.gz") == ["a", "b"]


HEADER = ",".join(POD_FIELDS) + "\n"
GOOD = "0,good,,1,1,1Gi,,,,,,\n"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("-1,a,,,,,,,,,,", "arrival: `-1` is negative"),
        ("nan,a,,,,,,,,,,", "arrival: `nan` is not a duration"),
        ("1e999,a,,,,,,,,,,", "arrival: `1e999` is not a duration"),
        ("soon,a,,,,,,,,,,", "arrival: `soon` is not a time such as 90, 90s or 1h30m"),
        ("0,a,UP,,,,,,,,,", "namespace: `UP` is not a valid name of a namespace"),
        ("0,a,,-3,,,,,,,,", "count: `-3` is negative"),
        ("0,a,,1.5,,,,,,,,", "count: `1.5` is not a whole number"),
        ("0,a,,99999999,,,,,,,,", "count: 99999999 pods in a row are more than 1000000"),
        ("0,a,,,NaN,,,,,,,", "cpu: `NaN` is not an amount of cpu such as 500m or 2"),
        ("0,a,,,1e99,,,,,,,", "cpu: `1e99` is too large"),
        ("0,a,,,,lots,,,,,,", "memory: `lots` is not an amount of memory such as 512Mi or 4Gi"),
        ("0,a,,,,,half,,,,,", "gpu: `half` is not a whole number"),
        ("0,a,,,,,,-5s,,,,", "duration: `-5s` is not a duration such as 500ms, 10s or 1m30s"),
        ("0,a,,,,,,,high,,,", "priority: `high` is not a whole number up to a billion"),
        ("0,a,,,,,,,1e12,,,", "priority: `1e12` is not a whole number up to a billion"),
        ("0,a,,,,,,,,app,,", "labels: `app` is not key=value"),
        ("0,a,,,,,,,,app=a b,,", "labels: `a b` cannot be the value of label app"),
        ("0,a,,,,,,,,,=x,", "nodeSelector: `=x` is not key=value"),
        ("0,a,,,,,,,,,,k=v:Never", "tolerations: `k=v:Never` is not a toleration"),
        ("0,a,,", "has 4 cells, not 12; `cpu` is the first column without one"),
        ("0,a,,,,,,,,,,,,,,", "has 16 cells, not 12; a value with a delimiter in it needs quotes"),
        ("0,good,,,,,,,,,,", "name: there is a pod default/good already"),
        ('0,"a"b,,,,,,,,,,', "is not CSV: ',' expected after '\"'"),
    ],
)
def test_broken_rows(file: Path, row: str, reason: str) -> None:
    write(file, f"{HEADER}{GOOD}{row}\n0,after,,,,,,,,,,\n")
    with pytest.raises(ConfigError) as caught:
        read_pods(file)
    message = str(caught.value)
    assert message.startswith(f"{file}:3: {reason}")
    assert message.endswith(
        ". Fix: correct the row, or leave out broken rows with `skipBroken: true` "
        "(Python: skip_broken=True)"
    )
    assert "\n" not in message
    trace = read_pods(file, skip_broken=True)
    assert (trace.reading.read, trace.reading.broken) == (2, 1)
    assert trace.reading.examples[0].where == f"{file}:3"
    assert trace.reading.examples[0].reason.startswith(reason)
    assert [each.manifest["metadata"]["name"] for each in trace.arrivals()] == ["good", "after"]


def test_bytes_that_are_no_text_break_their_row_only(file: Path) -> None:
    write(file, b"name,cpu\na,1\nM\xfcller,1\nb,1\n")
    with pytest.raises(ConfigError, match=r":3: is not UTF-8\. Fix: correct the row"):
        read_pods(file)
    assert names(file, skip_broken=True) == ["a", "b"]


def test_an_open_quote_is_told_with_the_line_it_begins_on(file: Path) -> None:
    write(file, 'name,cpu\na,1\n"b,1\nc,1\n')
    with pytest.raises(ConfigError, match=r"trace\.csv:3: is not CSV: unexpected end of data"):
        read_pods(file)


def test_lines_are_counted_through_quoted_newlines(file: Path) -> None:
    write(file, 'name,cpu\n"two\nlines",1\nb,x\n')
    with pytest.raises(ConfigError, match=r"trace\.csv:4: cpu: `x`"):
        read_pods(file)


def test_the_first_few_broken_rows_are_told(file: Path) -> None:
    write(file, "name,cpu\n" + "".join(f"p{number},x\n" for number in range(8)) + "good,1\n")
    with pytest.raises(ConfigError) as caught:
        read_pods(file)
    assert str(caught.value).count("`x` is not an amount") == 5
    assert "(8 broken rows). Fix: correct them, or" in str(caught.value)
    summary = read_pods(file, skip_broken=True).reading.summary()
    assert summary.startswith("1 rows used, 8 broken and skipped\n  ")
    assert summary.count("\n") == 5


def test_reading_stops_where_nearly_all_is_broken(file: Path) -> None:
    write(file, "name,cpu\n" + "p,x\n" * 10_000)
    with pytest.raises(ConfigError, match="100 broken rows so far, reading stopped there"):
        read_pods(file)
    with pytest.raises(ConfigError, match="not one row can be used, 10000 are broken"):
        read_pods(file, skip_broken=True)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty; a header was expected"),
        (b"\n\n", "is empty; a header was expected"),
        ("name,cpu\n".encode("utf-16"), "is UTF-16; save it as UTF-8"),
        (b"nam,cpu\na,1\n", ":1: unknown column `nam`; did you mean `name`?"),
        (b"vmid,cpu\na,1\n", "needs a layout: alibaba-2018-batch-task"),
        (b"name,name\na,1\n", ":1: the column `name` is there twice"),
        (b"\x00\x01\x02\n", "unknown column"),
    ],
)
def test_files_that_are_no_traces(file: Path, data: bytes, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_pods(write(file, data))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(file))


def test_a_trace_of_nothing_is_refused(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"trace\.csv: holds nothing to play\. Fix: give it rows"):
        read_pods(write(file, "name,cpu\n"))
    with pytest.raises(ConfigError, match="holds nothing to play"):
        read_nodes(file)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_pods(tmp_path / "absent.csv")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_pods(tmp_path)
    cut = tmp_path / "cut.csv.gz"
    cut.write_bytes(gzip.compress(b"cpu\n" + b"1\n" * 10_000)[:-20])
    with pytest.raises(ConfigError, match="cannot be unpacked"):
        read_pods(cut)
    plain = tmp_path / "plain.csv.gz"
    plain.write_bytes(b"name\na\n")
    with pytest.raises(ConfigError, match="cannot be unpacked: Not a gzipped file"):
        read_pods(plain)
    empty = tmp_path / "two.tar"
    with tarfile.open(empty, "w"):
        pass
    with pytest.raises(ConfigError, match="holds no file"):
        read_pods(empty)


def test_times_that_count_from_elsewhere_are_noticed(file: Path) -> None:
    write(file, "arrival,name\n1700000000,a\n1700000060,b\n")
    with pytest.raises(ConfigError, match=r"arrives after 54 years; .* `origin: first`"):
        read_pods(file)


def test_limit_reads_no_further(file: Path) -> None:
    write(file, "name,cpu\na,1\nb,1\nc,broken\n")
    assert names(file, limit=2) == ["a", "b"]


def test_names_of_copies_do_not_meet_others(file: Path) -> None:
    write(file, "name,count\nweb,2\nweb-1,1\n")
    with pytest.raises(ConfigError, match="name: there is a pod default/web-1 already"):
        read_pods(file)


def test_broken_nodes(file: Path) -> None:
    write(file, "name,cpu,taints\na,4,\na,4,\nb,4,x\nc,,\n")
    with pytest.raises(ConfigError, match="there is a node a already"):
        read_nodes(file)
    trace = read_nodes(file, skip_broken=True)
    assert [each["metadata"]["name"] for each in trace.objects()] == ["a", "c"]
    assert [row.reason for row in trace.reading.examples] == [
        "name: there is a node a already",
        "taints: `x` is not a taint; write key=value:NoSchedule",
    ]


cells = st.one_of(
    st.sampled_from(["", "1", "-1", "0.5", "500m", "nan", "1e30", "a=b", "10s", '"', "\x00", "é"]),
    st.text(max_size=6),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(cells, min_size=12, max_size=12), min_size=1, max_size=8))
def test_whatever_the_cells_hold_rows_are_used_or_counted(
    tmp_path: Path, table: list[list[str]]
) -> None:
    file = tmp_path / "trace.csv"
    with file.open("w", newline="", encoding="utf-8", errors="surrogatepass") as text:
        text.write(HEADER + GOOD)
        csv.writer(text).writerows(table)
    trace = read_pods(file, skip_broken=True)
    assert trace.reading.read + trace.reading.broken == 1 + len(table)
    made = list(trace.arrivals())
    assert len(made) == trace.pods
    assert [each.at for each in made] == sorted(each.at for each in made)
    keys = [(m["namespace"], m["name"]) for m in (each.manifest["metadata"] for each in made)]
    assert len(set(keys)) == len(keys)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300))
def test_any_bytes_are_a_trace_or_a_mistake_in_words(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(b"name,cpu\n" + data)
    try:
        trace = read_pods(file, skip_broken=True)
    except ConfigError as problem:
        told = problem
    else:
        assert len(list(trace.arrivals())) == trace.pods
        return
    assert told.where.startswith(str(file))
