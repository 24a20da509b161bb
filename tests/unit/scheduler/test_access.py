"""Asking for rights: what is missing is named, and few questions are open at a time."""

from __future__ import annotations

import asyncio

from stowplan.api.verbs import NoApi
from stowplan.errors import ApiUnavailable
from stowplan.plugins.dra import DynamicResources, WithTaintRules
from stowplan.scheduler.access import LEASE_RIGHTS, RIGHTS, grouped, missing_rights


class Asked(NoApi):
    """An API server that refuses some verbs, and does not answer about others."""

    def __init__(self, refused: str = "", unanswered: str = "") -> None:
        self._refused = refused
        self._unanswered = unanswered
        self.questions: list[tuple[str, ...]] = []
        self.open = 0
        self.most = 0

    async def can_i(
        self,
        verb: str,
        plural: str,
        *,
        group: str = "",
        namespace: str = "",
        subresource: str = "",
        name: str = "",
    ) -> bool:
        self.questions.append((verb, plural, group, name))
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.open -= 1
        if verb == self._unanswered:
            raise ApiUnavailable("no answer")
        return verb != self._refused


async def asked(server: Asked) -> list[str]:
    missing = await missing_rights(server, namespace="ns", lease=("kube-system", "mine"))
    return [str(each) for each in missing]


async def test_every_verb_is_asked_about_once_and_few_at_a_time() -> None:
    server = Asked()
    assert await asked(server) == []
    verbs = sum(len(right.verbs) for right in (*RIGHTS, *LEASE_RIGHTS))
    assert len(server.questions) == len(set(server.questions)) == verbs
    assert server.most == 4


async def test_what_is_missing_is_named_in_order() -> None:
    assert await asked(Asked(refused="create")) == [
        "create pods/binding in namespace ns",
        "create events.events.k8s.io in namespace ns",
        "create leases.coordination.k8s.io in namespace kube-system",
        "create events in namespace kube-system",
    ]


async def test_verbs_are_grouped_by_place_and_resource() -> None:
    server = Asked(refused="create")
    missing = await missing_rights(server, namespace="ns", lease=("kube-system", "mine"))
    missing += await missing_rights(Asked(refused="list"), namespace="ns")
    missing += await missing_rights(Asked(refused="watch"), namespace="ns")
    assert grouped(missing) == [
        "in namespace ns: create pods/binding, create events.events.k8s.io, list,watch pods",
        "in namespace kube-system: create leases.coordination.k8s.io, create events",
        "in the whole cluster: list,watch nodes",
    ]


async def test_no_answer_is_no_refusal() -> None:
    assert await asked(Asked(unanswered="watch")) == []


async def test_rights_to_read_taint_rules_are_wanted_with_their_gate_alone() -> None:
    class Refusing(Asked):
        async def can_i(self, verb: str, plural: str, **more: str) -> bool:
            return plural != "devicetaintrules"

    missing = await missing_rights(Refusing(), plugins=[WithTaintRules()])
    assert grouped(missing) == ["in the whole cluster: list,watch devicetaintrules.resource.k8s.io"]
    assert not any(each.is_optional for each in missing), "the scheduler does not start"
    assert await missing_rights(Refusing(), plugins=[DynamicResources()]) == []
