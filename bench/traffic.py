"""Bytes that the planner reads from the API server, reckoned from the sizes of objects and how often they change.

What is reckoned is the JSON of lists and watches as the planner asks for it: not compressed, without TLS and HTTP. The
sizes were taken at kube-apiserver 1.36 with HAMi 2.9, where our webhook had prepared the pods: of a pod with cards at
each of its steps, of a node as in the tests. What tests lack and clusters have is added by estimate, and named so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

WAITING_POD = 6_300
"""Behind the gate, with the condition; a third more than before its condition is there, a fifth of it managedFields."""
BOUND_POD = 10_000
"""With its node and HAMi's annotations, and the init container of the webhook."""
RUNNING = 1_500
"""Status of containers and addresses, as kubelets write them: an estimate."""
PLAIN_POD = 5_000
"""Of one container, with its token, status and managedFields: an estimate. The least that was seen is 1,900."""
NODE = 3_600 + 12_000
"""With HAMi's list of eight cards; labels, images and conditions of a real node are an estimate."""
TOPOLOGY = 11_300
"""A ConfigMap of an agent, for eight cards on NVSwitches."""
LEASE = 850 + 3_400
"""With managedFields, and with the traffic of eight cards that are busy all day."""
FRAME = 30
"""Around each object of a watch."""

WITH_CARDS = (
    ("created", WAITING_POD),
    ("its cards are chosen, and the gate opens", WAITING_POD + 700),
    ("the condition says so", WAITING_POD + 900),
    ("HAMi chooses its node", BOUND_POD - 500),
    ("bound", BOUND_POD - 200),
    ("HAMi's device plugin begins and ends", 2 * BOUND_POD),
    ("the kubelet begins, and the pod runs", 3 * (BOUND_POD + RUNNING)),
    ("it ends and is deleted", 3 * (BOUND_POD + RUNNING)),
)
"""Bytes of the objects of a watch by what happens to a pod."""
WITH_CARDS_OBJECTS = 13
"""How many these are."""
WITHOUT_CARDS = 8
"""Objects of a watch in the life of another pod: created, bound, three by the kubelet, three at its end."""
NODE_SECONDS = 300.0
"""Kubelets write the status of a node that often if nothing changes: nodeStatusReportFrequency."""
LEASE_SECONDS = 60.0
"""Agents renew their Leases that often."""
DAY = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """A cluster, and what happens in it on a day."""

    nodes: int
    pods: int
    """That are there at one time, those with cards among them."""
    holders: int
    """Those with cards."""
    arrivals: int
    """Pods with cards that come, and as many that end."""
    others: int
    """Pods without cards that come, and as many that end."""


def at_the_start(day: Day) -> int:
    """Bytes of the lists that a planner reads when it starts, and when a watch cannot go on."""
    pods = day.holders * (BOUND_POD + RUNNING) + (day.pods - day.holders) * PLAIN_POD
    return pods + day.nodes * (NODE + TOPOLOGY + LEASE)


def watched(day: Day) -> Iterator[tuple[str, float]]:
    """Bytes of the watches in a day, by what they are about."""
    one = sum(size for _, size in WITH_CARDS) + FRAME * WITH_CARDS_OBJECTS
    yield "pods with cards", day.arrivals * one
    yield "other pods", day.others * WITHOUT_CARDS * (PLAIN_POD + FRAME)
    yield "nodes", day.nodes * DAY / NODE_SECONDS * (NODE + FRAME)
    yield "Leases of agents", day.nodes * DAY / LEASE_SECONDS * (LEASE + FRAME)
