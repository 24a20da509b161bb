"""Does the cluster take it, is its pod placed, and may the scheduler do what it does?"""

import dataclasses
import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stowplan.api.client import ApiClient
from stowplan.errors import ApiError, ConfigError
from stowplan.learn.checking import Mistake, Note, play, start
from stowplan.scenarios import Cluster, Options

Json = dict[str, Any]

RBAC = "rbac.authorization.k8s.io/v1"
KINDS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Deployment")
PLACED, WAITING = "prgcontsched-0", "hello"


class Right(NamedTuple):
    verb: str
    resource: str
    kinds: tuple[str, ...] = ("RoleBinding", "ClusterRoleBinding")


NEEDED = (
    Right("list", "pods"),
    Right("watch", "pods"),
    Right("create", "pods/binding"),
    Right("list", "nodes", ("ClusterRoleBinding",)),
)


def check(work: Any, on: str) -> list[Note]:
    documents = {kind: [each for each in work if is_a(each, kind)] for kind in KINDS}
    for kind, found in documents.items():
        if not found:
            raise Mistake("missing", kind=kind)
    account = documents["ServiceAccount"][0]["metadata"]["name"]
    deployment = documents["Deployment"][0]
    template = (deployment.get("spec") or {}).get("template") or {}
    pod_spec: Json = template.get("spec") or {}

    async def scenario(cluster: Cluster) -> None:
        await cluster.create_node("alpha")
        for document in work:
            await apply(cluster, document, on)
        judge_labels(deployment["spec"], template)
        await must_be_placed(cluster, template)
        judge_account(pod_spec, account)
        judge_rights(documents, account)
        await run_it(cluster, account, on)

    play(scenario, on, Options(with_scheduler=True))
    return list(notes(on, pod_spec["containers"][0]["image"]))


def is_a(document: Any, kind: str) -> bool:
    return isinstance(document, dict) and document.get("kind") == kind


async def apply(cluster: Cluster, document: Json, on: str) -> None:
    kind, name = document.get("kind", "?"), (document.get("metadata") or {}).get("name", "")
    try:
        if document.get("apiVersion") != RBAC:
            await cluster.create(document)
        elif on == "real":  # the others serve no roles
            space = "" if kind.startswith("Cluster") else f"namespaces/{cluster.namespace}/"
            path = f"/apis/{RBAC}/{space}{kind.lower()}s"
            await cluster.client.request("POST", path, body=msgspec.json.encode(document))
    except (ApiError, ConfigError) as error:
        raise Mistake("refused", kind=kind, name=name, why=error) from None


def judge_labels(spec: Json, template: Json) -> None:
    """Not every target's API server looks at that."""
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector or not selector.items() <= labels.items():
        raise Mistake("selector", selector=selector, labels=labels)


async def must_be_placed(cluster: Cluster, template: Json) -> None:
    """As the Deployment's controller would, create a pod."""
    labels = (template.get("metadata") or {}).get("labels")
    metadata = {"name": PLACED, "labels": labels}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    await apply(cluster, manifest, "")
    await cluster.sleep(5)
    if await cluster.node_of(PLACED):
        return
    pod = await cluster.get("Pod", PLACED)
    asked = pod["spec"]["schedulerName"]
    if asked != "default-scheduler":
        raise Mistake("waits_for_itself", found=asked)
    conditions = pod["status"].get("conditions") or ()
    raise Mistake("not_placed", why=", ".join(each.get("message", "") for each in conditions))


def judge_account(pod_spec: Json, account: str) -> None:
    found = pod_spec.get("serviceAccountName") or "default"
    if found != account:
        key = "no_account" if found == "default" else "no_such_account"
        raise Mistake(key, found=found, account=account)


def judge_rights(documents: dict[str, list[Json]], account: str) -> None:
    for right in NEEDED:
        given = [role for kind in right.kinds for role in roles_of(documents, kind, account)]
        rules = [rule for role in given for rule in role.get("rules") or ()]
        if not any(allows(rule, right) for rule in rules):
            refuse(documents, account, right, rules)
    for role in documents["Role"] + documents["ClusterRole"]:
        for rule in role.get("rules") or ():
            if any("*" in (rule.get(part) or ()) for part in ("apiGroups", "resources", "verbs")):
                raise Mistake("too_wide", kind=role["kind"], name=role["metadata"]["name"])


def roles_of(documents: dict[str, list[Json]], kind: str, account: str) -> Iterator[Json]:
    """The roles that bindings of a kind give to the account."""
    for binding in documents[kind]:
        subjects = binding.get("subjects") or ()
        if not any(
            is_a(each, "ServiceAccount") and each.get("name") == account for each in subjects
        ):
            continue
        reference = binding.get("roleRef") or {}
        for role in documents.get(reference.get("kind", ""), ()):
            if role["metadata"].get("name") == reference.get("name"):
                yield role


def allows(rule: Json, right: Right, *, in_any_group: bool = False) -> bool:
    def has(part: str, wanted: str) -> bool:
        return any(each in (wanted, "*") for each in rule.get(part) or ())

    is_group = in_any_group or has("apiGroups", "")
    return is_group and has("resources", right.resource) and has("verbs", right.verb)


def refuse(documents: dict[str, list[Json]], account: str, right: Right, rules: list[Json]) -> None:
    """Nobody gave it the role, the rule is for another group, or there is none."""
    told = {"account": account, "verb": right.verb, "resource": right.resource}
    usual = right.kinds[0]
    given = list(roles_of(documents, usual, account))
    if not given:
        subjects = [each for binding in documents[usual] for each in binding.get("subjects") or ()]
        names = ", ".join(str(each.get("name")) for each in subjects if isinstance(each, dict))
        raise Mistake("not_given", binding=usual, subjects=names or "nobody", **told)
    for rule in rules:
        if allows(rule, right, in_any_group=True):
            raise Mistake("wrong_group", found=rule.get("apiGroups"), **told)
    roles = " or ".join(f"{role['kind']} {role['metadata']['name']}" for role in given)
    raise Mistake("lacks_right", roles=roles, **told)


async def run_it(cluster: Cluster, account: str, on: str) -> None:
    """The scheduler of lesson 3; on a real API server in the name of the account."""
    user = f"system:serviceaccount:{cluster.namespace}:{account}"
    client = cluster.client
    if on == "real":
        client = ApiClient(
            dataclasses.replace(client.config, impersonate=(("Impersonate-User", user),))
        )
    try:
        running = start(cluster, scheduler(), client, cluster.namespace)
        await cluster.create_pod(WAITING, schedulerName="PrgContSched")
        await cluster.sleep(5)
        if not await cluster.node_of(WAITING):
            raise Mistake("program_failed", why=running.error or "it said nothing")
    finally:
        if client is not cluster.client:
            await client.close()


def scheduler() -> Any:
    path = Path(__file__).parent / "given" / "scheduler.py"
    spec = importlib.util.spec_from_file_location("scheduler_of_lesson_3", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.schedule


def notes(on: str, image: str) -> Iterator[Note]:
    if on != "real":
        yield Note("rights_by_reading", on=on)
    engines = {"docker": ["image", "inspect"], "buildah": ["inspect", "--type", "image"]}
    for engine, inspect in engines.items():
        if shutil.which(engine) is None or not succeeds(engine, "info"):
            continue
        key = "image_is_there" if succeeds(engine, *inspect, image) else "image_is_missing"
        yield Note(key, engine=engine, image=image)
        return
    yield Note("no_engine", image=image)


def succeeds(*command: str) -> bool:
    try:
        subprocess.run(command, capture_output=True, timeout=20, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return False
    return True
