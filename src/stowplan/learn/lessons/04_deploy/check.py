"""Does the cluster take it, is its pod placed, and may the scheduler do what it does?"""

import dataclasses
import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from stowplan.api.client import ApiClient
from stowplan.errors import ApiError, ConfigError
from stowplan.learn import rights
from stowplan.learn.checking import Mistake, Note, manifests, play, start
from stowplan.learn.rights import Right, Roles
from stowplan.scenarios import Cluster, Options

Json = dict[str, Any]

KINDS = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Deployment")
IN_NAMESPACE = ("RoleBinding", "ClusterRoleBinding")
NEEDED = (
    Right("list", "pods", IN_NAMESPACE),
    Right("watch", "pods", IN_NAMESPACE),
    Right("create", "pods/binding", IN_NAMESPACE),
    Right("list", "nodes", ("ClusterRoleBinding",)),
)
PLACED, WAITING = "prgcontsched-0", "hello"


def check(work: Any, on: str) -> list[Note]:
    documents = {each["kind"]: each for each in reversed(manifests(work))}
    for kind in KINDS:
        if kind not in documents:
            raise Mistake("missing", kind=kind)
    account = documents["ServiceAccount"]["metadata"]["name"]
    images: list[str] = []

    async def scenario(cluster: Cluster) -> None:
        must_be_together(work, cluster.namespace)
        await cluster.create_node("alpha")
        for document in work:
            await apply(cluster, document, on)
        template = template_of(documents["Deployment"])
        await must_be_placed(cluster, template)
        images.append(judge_program(template["spec"]))
        judge_account(template["spec"], account)
        judge_rights(work, account, cluster.namespace)
        await run_it(cluster, account, on)

    play(scenario, on, Options(with_scheduler=True))
    return list(notes(on, images[0]))


def must_be_together(documents: list[Json], namespace: str) -> None:
    for each in documents:
        found = each["metadata"].get("namespace", namespace)
        if found != namespace and not each["kind"].startswith("Cluster"):
            told = {"kind": each["kind"], "name": each["metadata"]["name"]}
            raise Mistake("elsewhere", found=found, wanted=namespace, **told)


async def apply(cluster: Cluster, document: Json, on: str) -> None:
    kind, name = document["kind"], document["metadata"]["name"]
    try:
        if document["apiVersion"] != rights.API_VERSION:
            await cluster.create(document)
        elif on == "real":  # the others serve no roles
            space = "" if kind.startswith("Cluster") else f"namespaces/{cluster.namespace}/"
            path = f"/apis/{rights.API_VERSION}/{space}{kind.lower()}s"
            await cluster.client.request("POST", path, body=msgspec.json.encode(document))
    except (ApiError, ConfigError) as error:
        raise Mistake("refused", kind=kind, name=name, why=error) from None


def template_of(deployment: Json) -> Json:
    """The pod template; not every target's API server looks at it as closely as we need."""
    spec = deployment.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    if not isinstance(template, dict) or not isinstance(template.get("spec"), dict):
        raise Mistake("no_template")
    labels = part_of(template, "metadata", "labels")
    selector = part_of(spec, "selector", "matchLabels")
    if not selector or not selector.items() <= labels.items():
        raise Mistake("selector", selector=selector, labels=labels)
    return {"metadata": {"labels": labels}, "spec": template["spec"]}


def part_of(document: Any, *path: str) -> Json:
    """A mapping within mappings; empty where there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


async def must_be_placed(cluster: Cluster, template: Json) -> None:
    """As the Deployment's controller would, create a pod."""
    metadata = {"name": PLACED, **template["metadata"]}
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


def judge_program(spec: Json) -> str:
    """Python is given a file of the ConfigMap that is mounted; gives the image."""
    container = spec["containers"][0]
    words = [str(each) for part in ("command", "args") for each in container.get(part) or ()]
    folders = {str(PurePosixPath(word).parent) for word in words if word.endswith("scheduler.py")}
    mounts = [each for each in container.get("volumeMounts") or () if isinstance(each, dict)]
    names = {each.get("name") for each in mounts if each.get("mountPath") in folders}
    volumes = [each for each in spec.get("volumes") or () if isinstance(each, dict)]
    if not any(each.get("name") in names and part_of(each, "configMap") for each in volumes):
        raise Mistake("no_program", command=words)
    return str(container.get("image"))


def judge_account(pod_spec: Json, account: str) -> None:
    found = pod_spec.get("serviceAccountName") or "default"
    if found != account:
        key = "no_account" if found == "default" else "no_such_account"
        raise Mistake(key, found=found, account=account)


def judge_rights(documents: list[Json], account: str, namespace: str) -> None:
    try:
        roles = Roles(documents)
    except rights.Malformed as error:
        raise Mistake("refused", kind=error.kind, name=error.name, why=error.why) from None
    for binding in roles.bindings:
        if binding.role_ref.api_group != rights.GROUP:
            told = {"kind": binding.kind, "name": binding.metadata.name, "wanted": rights.GROUP}
            raise Mistake("wrong_reference", found=binding.role_ref.api_group, **told)
    for right in NEEDED:
        if not any(rule.allows(right) for rule in roles.rules(right, account, namespace)):
            refuse(roles, right, account, namespace)
    for role in roles.roles:
        if any(rule.is_without_bounds for rule in role.rules or ()):
            raise Mistake("too_wide", kind=role.kind, name=role.metadata.name)


def refuse(roles: Roles, right: Right, account: str, namespace: str) -> None:
    """The role is not bound, its rule is for another group, or there is none."""
    told = {"account": account, "verb": right.verb, "resource": right.resource}
    usual = right.bindings[0]
    given = list(roles.given(usual, account, namespace))
    if not given:
        subjects = [f"{each.namespace}/{each.name}" for each in roles.subjects(usual)]
        shown = {"binding": usual, "subjects": ", ".join(subjects) or "nobody"}
        raise Mistake("not_given", namespace=namespace, **shown, **told)
    for rule in roles.rules(right, account, namespace):
        if rule.allows(right, in_any_group=True):
            raise Mistake("wrong_group", found=rule.api_groups, **told)
    names = " or ".join(f"{role.kind} {role.metadata.name}" for role in given)
    raise Mistake("lacks_right", roles=names, **told)


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
        subprocess.run(command, capture_output=True, timeout=20, check=True)  # noqa: S603 - podman, docker
    except (OSError, subprocess.SubprocessError):
        return False
    return True
