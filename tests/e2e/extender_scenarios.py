"""Pods that show what extenders are asked and what becomes of their answers.

What each extender answers stands beside the pod: rules of rules.go of the extender in Go. The
nodes are a-1, a-2, b-1 and b-2, each larger than the one before, so that of those that are left
the last is best where extenders do not score.
"""

from __future__ import annotations

from typing import Any

from tests.e2e.extender_stage import COUNTED, CPUS, Play
from tests.e2e.scheduler_play import node_of

ANNOUNCED = "this was ordered to fail"
GADGET = "example.com/gadget"
OTHER = "example.com/other"
NEVER = ",".join(f"{node}=wrong kind" for node in CPUS)
#: What is said of nodes where nobody can be evicted, and of those where that is of no use.
NO_VICTIMS = "No preemption victims found for incoming pod"
NO_CLAIMS = "no new claims to deallocate"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
#: Fields of a pod that no scheduler looks at.
RICH_POD: dict[str, Any] = {
    "containers": [
        {
            "name": "main",
            "image": "example.test/main:1",
            "command": ["serve", "--greeting=Grüße <&>"],
            "env": [
                {"name": "WHERE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "EMPTY"},
            ],
            "lifecycle": {"preStop": {"exec": {"command": ["sleep", "1"]}}},
            "livenessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 7},
            "resources": {"requests": {"cpu": "1.0", "memory": "64Mi"}},
            "securityContext": {"capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        }
    ],
    "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["example.test"]}],
    "readinessGates": [{"conditionType": "example.com/ready"}],
    "volumes": [{"name": "scratch", "emptyDir": {}}],
}


def refused(reasons: str, preemption: str) -> str:
    """The message of a pod for which there is no node."""
    nodes = "0/4 nodes are available:"
    return f"{nodes} {reasons}{NO_CLAIMS}, preemption: {nodes} {preemption}."


def filtering(play: Play, form: str) -> None:
    play.pod("free", "b-2")
    play.pod("rich", "b-2", **RICH_POD)
    rules = {"alpha.refuse": "b-2=too old", "beta.never": "b-1=wrong kind"}
    play.pod("narrowed", "a-2", rules=rules)
    play.pod("single", "a-2", rules={"alpha.refuse": "a-1=too old,b-1=too old,b-2=too old"})
    play.pod(
        "nowhere",
        refused(
            "1 too hot, 1 wrong kind, 2 too old. ",
            f"1 {NOT_HELPFUL}, 3 {NO_VICTIMS}",
        ),
        rules={
            "alpha.refuse": "a-1=too old,a-2=too old",
            "beta.never": "b-1=wrong kind",
            "beta.refuse": "b-2=too hot",
        },
    )
    never = refused("4 wrong kind. ", f"4 {NOT_HELPFUL}")
    play.pod("never", never, rules={"alpha.never": NEVER})
    play.pod("twice", never, rules={"alpha.never": NEVER, "alpha.refuse": "a-1=too old"})
    wordless = refused("", f"4 {NOT_HELPFUL}")
    play.pod("omitted", wordless, rules={"alpha.omit": ",".join(CPUS)})
    play.pod("empty", wordless, rules={"alpha.trouble": "filter=empty"})
    play.pod(
        "selecting",
        refused(
            "1 too hot, 1 too old, 2 node(s) didn't match Pod's node affinity/selector. ",
            f"2 {NO_VICTIMS}, 2 {NOT_HELPFUL}",
        ),
        nodeSelector={"row": "a"},
        rules={"beta.refuse": "a-1=too old,a-2=too hot"},
    )
    # That it stays counts, whatever is said of it.
    rules = {"alpha.refuse": "b-2=too old", "alpha.trouble": "filter=both"}
    play.pod("kept", "b-2", rules=rules)
    play.pod(
        "names",
        "b-2" if form == "names" else wordless,
        rules={"alpha.trouble": "filter=names"},
    )
    play.pod(
        "stranger",
        'extender "<alpha>" claims a filtered node "stranger" which is not found in the input '
        "node list"
        if form == "names"
        else "b-2",
        rules={"alpha.trouble": "filter=stranger"},
    )


def scoring(play: Play, form: str) -> None:
    play.pod("scored", "a-1", rules={"alpha.score": "a-1=10"})
    # A weight of 3 makes 4 worth 120.
    play.pod("weighed", "a-2", rules={"alpha.score": "a-1=10", "beta.score": "a-2=4"})
    # NodeAffinity gives 200 to the node that is preferred; 10 and 4 are worth 220, 10 and 3 190.
    term = {"matchExpressions": [{"key": "place", "operator": "In", "values": ["a-1"]}]}
    preferred = [{"weight": 1, "preference": term}]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    rules = {"alpha.score": "b-1=10", "beta.score": "b-1=4"}
    play.pod("persuaded", "b-1", cpu="10m", affinity=affinity, rules=rules)
    rules = {"alpha.score": "b-1=10", "beta.score": "b-1=3"}
    play.pod("unmoved", "a-1", cpu="10m", affinity=affinity, rules=rules)
    play.pod("beyond", "a-2", rules={"alpha.score": "a-2=25", "beta.score": "a-1=8"})
    play.pod("strange-hosts", "a-1", rules={"alpha.score": "stranger=10,a-1=5"})
    if form == "names":
        # Not with whole nodes: kube-scheduler forgets what is on a node that comes back.
        play.pod("settler", "b-2", cpu="4", keep=True)
        play.pod("neighbour", "b-1")
        play.remove("settler")


#: Pods that were there before the scheduler, by priority, and where they go: the most important
#: fill the node that all like best.
BACKLOG = {
    "urgent": "a-1",
    "low-4": "a-1",
    "low-3": "a-1",
    "low-2": "a-1",
    "low-1": "a-2",
    "": "a-2",
}


def waiting(play: Play) -> None:
    for priority in reversed(BACKLOG):
        play.create(
            f"early-{priority or 'no'}-priority",
            priorityClassName=priority,
            rules={"alpha.score": "a-1=10,a-2=5", "beta.score": "a-1=10,a-2=5"},
        )


def waking(play: Play) -> None:
    """What an extender has refused is tried again after any change."""
    for priority, node in BACKLOG.items():
        play.becomes(f"early-{priority or 'no'}-priority", node, until=node_of)
    play.remove(*play.pods())
    never = refused("4 wrong kind. ", f"4 {NOT_HELPFUL}")
    play.pod("sleeper", never, rules={"alpha.never": NEVER}, keep=True)
    play.tried_again("sleeper", lambda: play.change_node("a-1", season="winter"))
    play.change_node("a-1", season=None)
    play.change("sleeper", {"alpha.never": "b-2=wrong kind"}, mood="awake")
    play.becomes("sleeper", "b-1", until=node_of)
    play.remove("sleeper")


def preempting(play: Play) -> None:
    """Every node is full. Those on a-1 are the least important, but a budget guards them."""

    for node in CPUS:
        _occupy(play, node)
    nodes = "0/4 nodes are available: 4 Insufficient cpu. "
    none = f"{nodes}{NO_CLAIMS}, preemption: no candidate node for preemption"
    full = f"{nodes}preemption: "
    last = {"alpha.spare": "a-1,a-2,b-1"}
    for name, then, rules in (
        ("spared", none, {"alpha.spare": ",".join(CPUS)}),
        ("spared-by-two", none, {"alpha.spare": "a-1,a-2", "beta.spare": "b-1,b-2"}),
        ("preempt-empty", none, {"alpha.trouble": "preempt=empty"}),
        ("nobody-ignored", none, {"beta.trouble": "preempt=nobody"}),
        (
            "preempt-500",
            f"{full}failed preempt with extender at URL <alpha>/preempt, code 500",
            {"alpha.trouble": "preempt=500"},
        ),
        (
            "preempt-nobody",
            f'{full}expected at least one victim pod on node "b-2"',
            {**last, "alpha.trouble": "preempt=nobody"},
        ),
        (
            "preempt-stranger",
            f"{full}extender: <alpha> claims to preempt pod (UID: &{{stranger}}) on node: b-2, "
            "but the pod is not found on that node",
            {**last, "alpha.trouble": "preempt=stranger"},
        ),
        (
            "preempt-elsewhere",
            f'{full}nodeinfo not found for node name "elsewhere"',
            {"alpha.trouble": "preempt=elsewhere"},
        ),
    ):
        play.pod(name, then, cpu="3", priorityClassName="urgent", rules=rules)
    for name, node, rules in (
        ("urgent", "a-2", {}),
        ("urgent-elsewhere", "b-1", {"alpha.spare": "a-1", "beta.spare": "a-2"}),
        ("urgent-anyway", "b-1", {"alpha.spare": "a-1,a-2", "beta.trouble": "preempt=500"}),
    ):
        play.pod(name, node, until=node_of, cpu="3", priorityClassName="urgent", rules=rules)
        play.evicted(f"full-{node}", by=name)
        _occupy(play, node)
    play.remove(*(f"full-{node}" for node in CPUS))
    # Refused for a reason of the extender's, not because of those who are there.
    play.create("bystander", nodeName="a-1", priorityClassName="low-1")
    play.pod(
        "in-vain",
        "0/4 nodes are available: 1 too old, 3 wrong kind. preemption: "
        'expected at least one victim pod on node "a-1"',
        priorityClassName="urgent",
        rules={
            "alpha.never": "a-2=wrong kind,b-1=wrong kind,b-2=wrong kind",
            "alpha.refuse": "a-1=too old",
        },
    )


def _occupy(play: Play, node: str) -> None:
    play.create(
        f"full-{node}",
        cpu=str(CPUS[node]),
        labels={"app": "guarded"} if node == "a-1" else {},
        nodeName=node,
        priorityClassName=f"low-{list(CPUS).index(node) + 1}",
    )


def managing(play: Play) -> None:
    """alpha manages two resources, and the pods with one of them it binds itself."""
    play.pod("plain", "b-2", rules={"alpha.refuse": "b-2=not asked"})
    play.pod("gadget", "a-1", resource=GADGET, rules={"alpha.score": "a-1=10"})
    starter = {
        "name": "starter",
        "image": "example.test/starter:1",
        "resources": {"requests": {GADGET: "1"}, "limits": {GADGET: "1"}},
    }
    play.pod("starter", "b-1", initContainers=[starter], rules={"alpha.refuse": "b-2=too old"})
    play.pod("counted", "b-1", resource=COUNTED)
    counted = {"requests": {COUNTED: "3"}, "limits": {COUNTED: "3"}}
    play.pod(
        "too-many",
        refused(f"4 Insufficient {COUNTED}. ", f"4 {NOT_HELPFUL}"),
        containers=[{"name": "main", "image": "example.test/main:1", "resources": counted}],
    )
    # What the extenders manage takes the place of what the profile says.
    play.pod("other", refused(f"4 Insufficient {OTHER}. ", f"4 {NOT_HELPFUL}"), resource=OTHER)
    for kind, then in {
        "error": ANNOUNCED,
        "500": "failed bind with extender at URL <alpha>/bind, code 500",
    }.items():
        rules = {"alpha.trouble": f"bind={kind}"}
        play.pod(f"unbound-{kind}", then, resource=GADGET, rules=rules)
    play.lands("late", "b-2", resource=GADGET, rules={"alpha.trouble": "bind=late"})


def troubled(play: Play, gone: str) -> None:
    """Each pod has to do with one extender, by the resource that it asks for.

    alpha is needed, beta is not; the slow ones are the same two with little patience for them, and
    at the address `gone` there is nobody.
    """
    post = 'Post "<alpha>/filter": '
    for kind, then, vague in (
        ("500", "failed filter with extender at URL <alpha>/filter, code 500", ""),
        ("error", ANNOUNCED, ""),
        ("close", f"{post}EOF", ""),
        ("cut", "unexpected EOF", ""),
        ("junk", "...", ".+"),
    ):
        rules = {"alpha.trouble": f"filter={kind}", "beta.trouble": f"filter={kind}"}
        play.pod(f"needed-{kind}", then, resource="example.com/needed", rules=rules, vague=vague)
        play.pod(f"optional-{kind}", "b-2", resource="example.com/optional", rules=rules)
    rules = {"alpha.trouble": "filter=hang", "beta.trouble": "filter=hang"}
    late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    play.pod("slow", f"{post}{late}", resource="example.com/slow", rules=rules)
    play.pod("slow-optional", "b-2", resource="example.com/slow-optional", rules=rules)
    stalled = (
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    )
    rules = {"alpha.trouble": "filter=stall"}
    play.pod("stalled", stalled, resource="example.com/slow", rules=rules)
    nobody = f'Post "http://{gone}/filter": dial tcp {gone}: connect: connection refused'
    play.pod("gone", nobody, resource="example.com/gone")
    play.pod("gone-optional", "b-2", resource="example.com/gone-optional")
    # Scores are never needed.
    for kind, resource in {"500": "needed", "junk": "needed", "hang": "slow"}.items():
        rules = {"alpha.trouble": f"prioritize={kind}", "alpha.score": "a-1=10"}
        play.pod(f"unscored-{kind}", "b-2", resource=f"example.com/{resource}", rules=rules)
    for kind in ("error", "500"):
        rules = {"beta.trouble": f"bind={kind}"}
        play.pod(f"bound-anyway-{kind}", "b-2", resource="example.com/optional", rules=rules)


def asking_our_own(play: Play) -> None:
    """The extender is Binder of extender_algorithms, which does what the labels of pods say."""
    play.pod("settler", "b-2", cpu="4", keep=True)
    play.pod("free", "b-2")  # by its score
    play.pod("only", "a-1", labels={"only": "a-1"})
    play.pod("nowhere", refused("4 not c-1. ", f"4 {NOT_HELPFUL}"), labels={"only": "c-1"})
    place = "tests/e2e/extender_algorithms.py:31"
    play.pod("broken", f"Binder.filter: LookupError: odd ({place})", labels={"fail": "odd"})
    play.pod("refused", "the binder does not like its name")
    play.remove("settler")
    for node in CPUS:
        _occupy(play, node)
    urgent = {"evict": "b-1"}
    play.pod("urgent", "b-1", until=node_of, cpu="3", priorityClassName="urgent", labels=urgent)
    play.evicted("full-b-1", by="urgent")
