"""Layouts of other people's CSV files; rows here are made up in the shape of the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.errors import ConfigError
from stowplan.sim.traces.csv_trace import read_nodes, read_pods
from stowplan.sim.traces.layout import find_layout, layout_names, read_layout
from stowplan.sim.traces.load import load_trace
from stowplan.sim.traces.model import Arrival, Trace

EXAMPLES = Path(__file__).parents[4] / "examples" / "traces"


def pods(tmp_path: Path, layout: str, text: str, **options: Any) -> Trace:
    file = tmp_path / "table.csv"
    file.write_text(text)
    return read_pods(file, layout=find_layout(layout), **options)


def told(arrival: Arrival) -> tuple[Any, ...]:
    """Name, moment, duration and requests."""
    container = arrival.manifest["spec"]["containers"][0]
    amounts = container.get("resources", {}).get("requests", {})
    return (arrival.manifest["metadata"]["name"], arrival.at, arrival.run_s, amounts)


def test_alibaba_2018_batch_tasks(tmp_path: Path) -> None:
    rows = "M1,2,j_1,1,Terminated,100,160,50,0.5\ntask_Nzg3==,1,j_2,12,Running,130,0,,\n"
    trace = pods(tmp_path, "alibaba-2018-batch-task", rows)
    half_percent = {"cpu": "500m", "memory": "2748779070"}
    assert [told(each) for each in trace.arrivals()] == [
        ("j-1-m1-1-0", 0.0, 60.0, half_percent),
        ("j-1-m1-1-1", 0.0, 60.0, half_percent),
        ("j-2-task-nzg3-2", 30.0, None, {"cpu": "1"}),
    ]
    labels = [each.manifest["metadata"]["labels"] for each in trace.arrivals()]
    assert labels == [{"task-type": "1"}, {"task-type": "1"}, {"task-type": "12"}]


def test_alibaba_2018_machines(tmp_path: Path) -> None:
    file = tmp_path / "machine_meta.csv"
    file.write_text("m_1,0,3,2,96,100,USING\nm_1,500,3,2,96,100,USING\nm_2,0,4,2,96,50,USING\n")
    trace = read_nodes(file, layout=find_layout("alibaba-2018-machine-meta"))
    assert (trace.nodes, trace.reading.left_out) == (2, 1)
    first = next(trace.objects())
    assert first["metadata"]["name"] == "m-1-1"
    assert first["metadata"]["labels"]["topology.kubernetes.io/zone"] == "3"
    assert first["status"]["allocatable"]["cpu"] == "96"


def test_alibaba_gpu_2020(tmp_path: Path) -> None:
    rows = (
        "4f05,tensorflow,1.0,Terminated,1739162.0,1739200.0,600.0,29.296875,50.0,MISC\n"
        "abc,worker,2.0,Running,1739100.0,,,,200.0,\n"
    )
    trace = pods(tmp_path, "alibaba-gpu-2020-task", rows)
    made = [told(each) for each in trace.arrivals()]
    assert made[0] == ("worker-abc-0", 0.0, None, {"cpu": "1", "nvidia.com/gpu": "2"})
    name, at, run_s, amounts = made[2]
    assert (name, at, run_s) == ("tensorflow-4f05", 62.0, 38.0)
    assert amounts == {"cpu": "6", "memory": "30000Mi", "nvidia.com/gpu": "1"}
    file = tmp_path / "pai_machine_spec.csv"
    file.write_text("82e5,T4,96,512,2\n")
    node = next(read_nodes(file, layout=find_layout("alibaba-gpu-2020-machine")).objects())
    assert node["metadata"]["labels"]["gpu-type"] == "T4"
    assert node["status"]["capacity"] == {
        "cpu": "96",
        "memory": "512Gi",
        "nvidia.com/gpu": "2",
        "pods": "110",
    }


def test_alibaba_gpu_2023(tmp_path: Path) -> None:
    rows = (
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time\n"
        "openb-pod-0001,6000,12288,1,460,,LS,Running,427061,12902960,427061\n"
        "openb-pod-0002,500,64,0,0,V100M16|V100M32,BE,Pending,427000,427100,\n"
    )
    trace = pods(tmp_path, "alibaba-gpu-2023-pod", rows)
    first, second = trace.arrivals()
    assert told(first) == ("openb-pod-0002", 0.0, 100.0, {"cpu": "500m", "memory": "64Mi"})
    amounts = {"cpu": "6", "memory": "12Gi", "nvidia.com/gpu": "1"}
    assert told(second) == ("openb-pod-0001", 61.0, 12475899.0, amounts)
    term = first.manifest["spec"]["affinity"]["nodeAffinity"]
    terms = term["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == ["V100M16", "V100M32"]
    assert "affinity" not in second.manifest["spec"]
    file = tmp_path / "openb_node_list.csv"
    file.write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn-0227,32000,262144,0,\nn-1,96000,1024,8,V100M32\n"
    )
    nodes = list(read_nodes(file, layout=find_layout("alibaba-gpu-2023-node")).objects())
    assert "gpu-model" not in nodes[0]["metadata"]["labels"]
    assert nodes[1]["metadata"]["labels"]["gpu-model"] == "V100M32"


@pytest.mark.parametrize(
    ("layout", "cores", "memory", "amounts"),
    [
        ("azure-v1-vmtable", "1", "1.75", {"cpu": "1", "memory": "1792Mi"}),
        ("azure-v2-vmtable", "8", "32", {"cpu": "8", "memory": "32Gi"}),
        ("azure-v2-vmtable", ">24", ">64", {"cpu": "30", "memory": "70Gi"}),
    ],
)
def test_azure(
    tmp_path: Path, layout: str, cores: str, memory: str, amounts: dict[str, str]
) -> None:
    row = "x/Xs+Of=,VDU4,Pc2V/LB8+aDx=,558300,1673700,91.7,0.7,20.7,Delay-insensitive"
    row += f",{cores},{memory}\n"
    trace = pods(tmp_path, layout, row)
    (only,) = trace.arrivals()
    assert told(only) == ("vm-1", 558300.0, 1115400.0, amounts)
    labels = {"deployment": "Pc2V-LB8-aDx", "category": "Delay-insensitive"}
    assert only.manifest["metadata"]["labels"] == labels


def test_a_layout_of_ones_own() -> None:
    trace = load_trace(EXAMPLES / "jobs.csv", columns=str(EXAMPLES / "layout.yaml"))
    assert (trace.reading.read, trace.reading.left_out) == (3, 1)
    made = [told(each) for each in trace.arrivals()]
    assert made[:4] == [
        ("search-index-1-2-0", 0.0, 60.0, {"cpu": "1500m", "memory": "2000000000"}),
        ("search-index-1-2-1", 0.0, 60.0, {"cpu": "1500m", "memory": "2000000000"}),
        ("search-index-1-2-2", 0.0, 60.0, {"cpu": "1500m", "memory": "2000000000"}),
        ("ads-clicks-3", 5.5, 0.5, {"cpu": "500m", "memory": "500000000"}),
    ]
    assert [each["value"] for each in trace.objects()] == [0, 100, 1000]


def test_every_layout_names_its_source_and_can_be_read() -> None:
    assert len(layout_names()) == 8
    for name in layout_names():
        assert find_layout(name).fields


def test_a_header_is_no_row_where_a_layout_knows_the_columns(tmp_path: Path) -> None:
    rows = "machine,gpu_type,cap_cpu,cap_mem,cap_gpu\n82e5,T4,96,512,2\n"
    (tmp_path / "a.csv").write_text(rows)
    layout = find_layout("alibaba-gpu-2020-machine")
    assert read_nodes(tmp_path / "a.csv", layout=layout).nodes == 1


def test_times_as_dates(tmp_path: Path) -> None:
    (tmp_path / "layout.yaml").write_text(
        "origin: first\nfields:\n"
        "  arrival: {column: began, timestamp: true}\n"
        "  duration: {column: ended, minus: began, timestamp: true}\n"
    )
    text = "began,ended\n2026-01-02T03:04:05Z,2026-01-02T03:05:05Z\n2026-01-02 03:04:00,\nx,\n"
    text += "2026-01-02,2026-01-01\n"
    trace = pods(tmp_path, str(tmp_path / "layout.yaml"), text, skip_broken=True)
    assert [told(each) for each in trace.arrivals()] == [
        ("pod-3", 0.0, None, {}),
        ("pod-2", 5.0, 60.0, {}),
    ]
    assert [row.reason for row in trace.reading.examples] == [
        "arrival: `x` is not a time such as 2026-01-02T03:04:05Z",
        "duration: ended is before began",
    ]


def test_an_end_before_its_beginning_is_broken(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="duration: end_time is before start_time"):
        pods(tmp_path, "alibaba-2018-batch-task", "M1,2,j_1,1,Terminated,200,160,50,0.5\n")


def test_a_file_that_lacks_a_column_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        pods(tmp_path, "alibaba-gpu-2023-pod", "name,cpu\na,1\n")
    assert "has no column cpu_milli, creation_time, " in str(caught.value)
    assert "which layout alibaba-gpu-2023-pod reads; it has name, cpu" in str(caught.value)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (
            "fields: {arrival: {column: x, timestamp: true}}",
            "`arrival` is a date, so `origin` must be first",
        ),
        ("[]", "layout: expected a mapping"),
        ("{}", "`fields` must say at least where one of"),
        ("fields: {cpus: x}", "unknown field `cpus`; did you mean `cpu`?"),
        ("of: machines\nfields: {cpu: x}", "`of` is pods or nodes"),
        ("origin: epoch\nfields: {cpu: x}", "`origin` is zero or first"),
        ("delimiter: '||'\nfields: {cpu: x}", "`delimiter` must be one character"),
        ("columns: [a]\nfields: {cpu: x}", "`columns` does not list x"),
        ("fields: {cpu: {factor: 2}}", "layout, fields, cpu: `column` must be given"),
        ("fields: {cpu: {column: x, factor: 0}}", "`factor` must be a number above 0"),
        ("fields: {cpu: {colum: x}}", "unknown field `colum`; did you mean `column`?"),
        ("fields: {cpu: x}\nwhere: {state: {}}", "each column takes the values that are wanted"),
    ],
)
def test_mistakes_in_layouts(layout: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_layout(yaml.safe_load(layout), Path("mine.yaml"))
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.yaml")


def test_a_layout_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"nonsense: is neither a layout of ours \(alibaba-2018"):
        find_layout("nonsense")
