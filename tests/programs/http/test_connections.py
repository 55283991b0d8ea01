"""Which connection goes first."""

from collections import Counter
from dataclasses import replace

import pytest

from webhook.programs.http.connections import Cause, Connection, Connections, Limits, Phase

LIMITS = Limits(
    connections=4,
    unfinished_bytes=100,
    header_bytes=1024,
    body_bytes=100,
    handshake_seconds=10,
    header_seconds=10,
    body_seconds=10,
    answer_seconds=10,
    idle_seconds=120,
)


class Client(Connection):
    """A connection that remembers how it was ended."""

    def __init__(self, address: str = "10.0.0.1") -> None:
        super().__init__(address)
        self.ended = ""

    def abandon(self) -> None:
        self.ended = "abandoned"

    def close(self) -> None:
        self.ended = "closed"

    def refuse_late(self) -> None:
        self.ended = "refused"


class Port:
    """Connections with a clock that stands still."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.now = 1000.0
        self.closed: Counter[tuple[str, str]] = Counter()
        self.connections = Connections(limits, "reviews", self.closed, lambda: self.now)

    def connect(self, address: str = "10.0.0.1") -> Client:
        """A client that has shaken hands, if there was room."""
        client = Client(address)
        if self.connections.enter(client):
            self.connections.connected(client)
        else:
            client.ended = "turned away"
        return client

    def known(self, address: str = "10.0.0.1") -> Client:
        """A client that got an answer."""
        client = self.connect(address)
        self.ask(client)
        self.connections.rest(client)
        return client

    def begin(self, client: Client, size: int = 0) -> None:
        self.connections.begin(client)
        self.connections.headers_end(client)
        self.connections.hold(client, size)

    def ask(self, client: Client, size: int = 0) -> None:
        self.begin(client, size)
        self.connections.request_ends(client)

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += 1
            self.connections.tick()


@pytest.fixture
def port() -> Port:
    return Port()


def test_the_oldest_stranger_goes_first_and_who_was_served_stays(port: Port) -> None:
    kept = port.known()
    strangers = [port.connect() for _ in range(3)]
    newcomer = port.connect()
    assert [client.ended for client in (kept, *strangers, newcomer)] == ["", "abandoned", "", "", ""]
    assert len(port.connections) == 4
    assert port.closed == {("reviews", "too-many-connections"): 1}


def test_of_strangers_one_of_the_address_with_the_most_goes(port: Port) -> None:
    alone = port.connect("10.0.0.9")
    crowd = [port.connect("10.0.0.1") for _ in range(3)]
    crowd += [port.connect("10.0.0.1") for _ in range(20)]
    assert alone.ended == ""
    assert [client.ended for client in crowd[-3:]] == ["", "", ""]


def test_a_stranger_whose_handshake_is_not_done_goes_too(port: Port) -> None:
    shaking = [Client() for _ in range(4)]
    for client in shaking:
        assert port.connections.enter(client)
    port.connect()
    assert [client.ended for client in shaking] == ["abandoned", "", "", ""]


def test_without_strangers_the_oldest_unfinished_request_goes(port: Port) -> None:
    known = [port.known() for _ in range(4)]
    port.begin(known[2])
    port.begin(known[1])
    port.connect()
    assert [client.ended for client in known] == ["", "", "abandoned", ""]


def test_a_request_that_is_being_answered_is_left_alone(port: Port) -> None:
    known = [port.known() for _ in range(4)]
    port.ask(known[0])
    port.begin(known[3])
    port.connect()
    assert [client.ended for client in known] == ["", "", "", "abandoned"]


def test_of_idle_connections_the_address_with_the_most_gives_one_up(port: Port) -> None:
    api_server = port.known("10.0.0.9")
    crowd = [port.known("10.0.0.1") for _ in range(3)]
    port.now += 1
    port.ask(crowd[0])
    port.connections.rest(crowd[0])
    newcomer = port.connect("10.0.0.8")
    assert [client.ended for client in (api_server, *crowd, newcomer)] == ["", "", "abandoned", "", ""]


def test_a_newcomer_of_the_address_with_the_most_is_turned_away_if_all_are_idle(port: Port) -> None:
    api_server = port.known("10.0.0.9")
    crowd = [port.known("10.0.0.1") for _ in range(3)]
    newcomer = port.connect("10.0.0.1")
    assert [client.ended for client in (api_server, *crowd, newcomer)] == ["", "", "", "", "turned away"]
    assert port.closed == {("reviews", "too-many-connections"): 1}


def test_bytes_over_the_limit_end_the_oldest_request_of_a_stranger(port: Port) -> None:
    kept, first, second = port.known(), port.connect(), port.connect()
    port.begin(kept, 30)
    port.begin(first, 30)
    port.begin(second, 40)
    assert port.connections.held == 100
    port.connections.hold(second, 1)
    assert [client.ended for client in (kept, first, second)] == ["", "abandoned", ""]
    assert port.connections.held == 71
    assert port.closed == {("reviews", "too-many-bytes"): 1}


def test_a_stranger_without_bytes_is_not_ended_for_bytes(port: Port) -> None:
    kept, idle, other = port.known(), port.connect(), port.connect()
    port.begin(other)
    port.begin(kept, 90)
    port.connections.hold(kept, 11)
    assert [client.ended for client in (kept, idle, other)] == ["abandoned", "", ""]
    assert port.connections.held == 0


def test_bytes_of_a_request_count_until_it_is_answered_and_its_answer_until_it_is_taken(port: Port) -> None:
    client = port.connect()
    port.ask(client, 60)
    assert port.connections.held == 60
    port.connections.sending(client)
    port.connections.hold(client, 20)
    assert (port.connections.held, client.phase) == (20, Phase.SENDING)
    port.connections.rest(client)
    assert (port.connections.held, client.phase, client.served) == (0, Phase.IDLE, True)


@pytest.mark.parametrize(
    ("phase", "ended", "cause"),
    [(Phase.HEADERS, "refused", Cause.HEADERS_LATE), (Phase.BODY, "refused", Cause.BODY_LATE)],
)
def test_a_request_that_is_late_is_refused(port: Port, phase: Phase, ended: str, cause: Cause) -> None:
    client = port.connect()
    port.connections.begin(client)
    if phase is Phase.BODY:
        port.connections.headers_end(client)
    port.pass_seconds(9)
    assert client.ended == ""
    port.pass_seconds(1)
    assert client.ended == ended
    assert port.closed == {("reviews", cause): 1}


def test_an_answer_that_is_not_taken_ends_the_connection(port: Port) -> None:
    client = port.known()
    port.connections.sending(client)
    port.connections.hold(client, 10)
    port.pass_seconds(10)
    assert client.ended == "abandoned"
    assert port.closed == {("reviews", "answer-unread"): 1}
    assert port.connections.held == 0


def test_an_answer_that_takes_long_to_make_is_waited_for(port: Port) -> None:
    client = port.connect()
    port.ask(client, 10)
    port.pass_seconds(1000)
    assert (client.ended, port.connections.held) == ("", 10)


def test_an_idle_connection_is_closed_after_its_time_and_that_is_nothing_to_count(port: Port) -> None:
    served, silent = port.known(), port.connect()
    port.pass_seconds(119)
    assert (served.ended, silent.ended) == ("", "")
    port.pass_seconds(1)
    assert (served.ended, silent.ended) == ("closed", "closed")
    assert not port.closed


def test_time_in_which_the_server_stood_still_is_nobodys_delay(port: Port) -> None:
    client = port.connect()
    port.begin(client)
    port.now += 60
    port.connections.tick()
    assert client.ended == ""
    port.pass_seconds(9)
    assert client.ended == "refused"


def test_a_connection_that_has_ended_counts_no_more(port: Port) -> None:
    client = port.connect()
    port.begin(client, 50)
    for _ in range(2):
        port.connections.leave(client)
    assert (len(port.connections), port.connections.held) == (0, 0)
    for _ in range(4):
        assert port.connect().ended == ""


def test_news_are_what_was_ended_since_the_last(port: Port) -> None:
    for _ in range(6):
        port.connect()
    assert port.connections.news() == {"too-many-connections": 2}
    assert port.connections.news() == {}


def test_whatever_clients_do_the_bytes_stay_within_the_limit() -> None:
    port = Port(replace(LIMITS, connections=50))
    clients = [port.connect() if number % 2 else port.known() for number in range(50)]
    for turn in range(1000):
        client = clients[turn * 7 % 50]
        if not client.ended:
            if client.phase is Phase.IDLE:
                port.begin(client)
            port.connections.hold(client, turn % 13)
        assert port.connections.held <= LIMITS.unfinished_bytes
        assert port.connections.held == sum(each.held for each in clients if not each.ended)
