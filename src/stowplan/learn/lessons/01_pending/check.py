"""Does the pod wait, and for the right scheduler?"""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from stowplan.errors import ApiError, ConfigError
from stowplan.learn.checking import Mistake, manifests, play
from stowplan.scenarios import Cluster, Options

SCHEDULER_NAME = "PrgContSched"
THE_USUAL = "default-scheduler"
#: What keeps a pod off nodes; a scheduler tells only what came of it.
KEEP_OFF = ("nodeSelector", "affinity", "schedulingGates", "nodeName", "resources")


def check(work: Any, on: str) -> None:
    documents = manifests(work)
    wanted = ("Pod", "hello")
    named = [each for each in documents if (each["kind"], each["metadata"]["name"]) == wanted]
    if not named:
        raise Mistake("no_pod")

    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("alpha")
        await cluster.create_node("bravo")
        try:
            await cluster.create(*documents)
        except (ApiError, ConfigError) as error:
            raise Mistake("refused", why=error) from None
        await cluster.sleep(5 if on != "virtual" else 60)
        pod = await cluster.get("Pod", "hello", namespace=named[0]["metadata"].get("namespace", ""))
        check_pod(pod, named[0])

    play(scenario, on, Options(with_scheduler=True))


def check_pod(pod: dict[str, Any], written: dict[str, Any]) -> None:
    scheduler, node = pod["spec"]["schedulerName"], pod["spec"].get("nodeName", "")
    if node:
        where = next((path for path in paths_to(written, "schedulerName")), "")
        if where and where != "spec.schedulerName":
            raise Mistake("misplaced", node=node, where=where)
        if where := misspelt(written):
            raise Mistake("misspelt", node=node, where=where)
        raise Mistake("placed", node=node, phase=pod["status"]["phase"])
    if scheduler == THE_USUAL:
        conditions = pod["status"].get("conditions") or ()
        why = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
        used = (field for field in KEEP_OFF if next(paths_to(written, field), ""))
        field = next(used, "spec that keeps it waiting")
        raise Mistake(
            "waits_for_a_node", scheduler=scheduler, why=why.partition(". ")[0], field=field
        )
    if scheduler != SCHEDULER_NAME:
        raise Mistake("other_name", scheduler=scheduler)


def misspelt(written: dict[str, Any]) -> str:
    """Where a field is whose name resembles schedulerName; empty if there is none."""
    for path, name in fields(written):
        letters = name.lower().replace("_", "").replace("-", "")
        if name != "schedulerName" and get_close_matches(letters, ["schedulername"], cutoff=0.8):
            return path
    return ""


def paths_to(value: Any, key: str) -> Iterator[str]:
    """Where in a document a field of that name is."""
    return (path for path, name in fields(value) if name == key)


def fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The path and the name of every field of a document."""
    if isinstance(value, dict):
        for name, each in value.items():
            here = f"{path}.{name}" if path else str(name)
            yield here, str(name)
            yield from fields(each, here)
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from fields(each, f"{path}[{number}]")
