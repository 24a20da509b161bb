"""Server-sent events: resume, and what a client that missed too much is told."""

from __future__ import annotations

from stowplan.console.events import KEPT_EVENTS, MOST_CLIENTS, EventHub
from stowplan.http.messages import Stream


class Client:
    """An outlet that keeps what it is sent."""

    def __init__(self, hub: EventHub, last_id: str = "") -> None:
        self.received = b""
        self.is_gone = self.has_ended = False
        self.response = hub.stream(last_id)
        if isinstance(self.response, Stream):
            self.response.opened(self)

    def send(self, data: bytes) -> bool:
        self.received += data
        return not self.is_gone

    def end(self) -> None:
        self.has_ended = True

    @property
    def events(self) -> list[str]:
        lines = self.received.decode().splitlines()
        return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]

    @property
    def last_id(self) -> str:
        lines = self.received.decode().splitlines()
        return [line.removeprefix("id: ") for line in lines if line.startswith("id: ")][-1]


def test_a_client_that_reconnects_gets_what_it_missed() -> None:
    hub = EventHub("boot")
    first = Client(hub)
    hub.publish("flow", {"n": 1})
    assert first.events == ["reset", "flow"]
    hub.publish("nodes", {"n": 2})
    hub.publish("queue", {})
    assert Client(hub, "boot.1").events == ["nodes", "queue"]
    assert Client(hub, first.last_id).events == []


def test_a_client_that_missed_too_much_or_knew_another_process_starts_again() -> None:
    hub = EventHub("boot")
    for number in range(KEPT_EVENTS + 5):
        hub.publish("flow", {"n": number})
    for stale in ("boot.2", "another.40", "boot.999999", "boot.x", "nonsense"):
        assert Client(hub, stale).events == ["reset"], stale
    assert len(Client(hub, "boot.5").events) == KEPT_EVENTS


def test_the_number_of_clients_is_limited_and_gone_ones_make_room() -> None:
    hub = EventHub("boot")
    clients = [Client(hub) for _ in range(MOST_CLIENTS)]
    refused = Client(hub).response
    assert refused.status == 503
    assert b"pages are open already" in refused.body
    clients[0].is_gone = True
    hub.heartbeat()
    assert len(hub) == MOST_CLIENTS - 1
    assert isinstance(clients[1].response, Stream)
    clients[1].response.closed()
    assert len(hub) == MOST_CLIENTS - 2
    hub.close()
    assert all(each.has_ended for each in clients[2:])
