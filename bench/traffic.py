"""The bytes that the planner reads from the API server, computed from the sizes of objects and their rates of change.

Counted is the JSON of lists and watches as the planner requests it: not compressed, without TLS and HTTP. The sizes
were measured at kube-apiserver 1.36 with HAMi 2.9, where our webhook had prepared the pods: of a pod with cards at each
of its steps, and of a node as in the tests. The parts that clusters have and tests lack are estimates, and are named
so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

WAITING_POD = 6_300
"""A gated pod with its condition: a third more than without the condition, and a fifth of it is managedFields."""
BOUND_POD = 10_000
"""A bound pod with its node, HAMi's annotations and the init container of the webhook."""
RUNNING = 1_500
"""The status of containers and addresses, as kubelets write them: an estimate."""
PLAIN_POD = 5_000
"""A pod of one container, with its token, status and managedFields: an estimate. The smallest seen has 1,900."""
NODE = 3_600 + 12_000
"""A Node with HAMi's list of eight cards; labels, images and conditions of a real node are an estimate."""
TOPOLOGY = 11_300
"""A ConfigMap of an agent, for eight cards on NVSwitches."""
LEASE = 850 + 1_700
"""A Lease of an agent with managedFields, and with the traffic of eight cards that are busy all day."""
FRAME = 30
"""The frame around each object of a watch."""

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
"""The bytes of a watch's objects for each step of a pod with cards."""
WITH_CARDS_OBJECTS = 13
"""The number of these objects."""
WITHOUT_CARDS = 8
"""The objects of a watch in the life of another pod: created, bound, three by the kubelet, three at its end."""
NODE_SECONDS = 300.0
"""The interval at which kubelets write the status of a node without changes (nodeStatusReportFrequency)."""
LEASE_SECONDS = 60.0
"""The interval at which agents renew their Leases."""
DAY = 86_400.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Day:
    """A day of a cluster."""

    nodes: int
    pods: int
    """The number of pods at one time, including those with cards."""
    holders: int
    """The number of pods with cards at one time."""
    arrivals: int
    """The number of pods with cards that are created; as many end."""
    others: int
    """The number of pods without cards that are created; as many end."""


def at_the_start(day: Day) -> int:
    """Returns the bytes of the lists that a planner reads when it starts, and when a watch cannot be continued."""
    pods = day.holders * (BOUND_POD + RUNNING) + (day.pods - day.holders) * PLAIN_POD
    return pods + day.nodes * (NODE + TOPOLOGY + LEASE)


def watched(day: Day) -> Iterator[tuple[str, float]]:
    """Yields the bytes of the watches in a day, by kind of object."""
    one = sum(size for _, size in WITH_CARDS) + FRAME * WITH_CARDS_OBJECTS
    yield "pods with cards", day.arrivals * one
    yield "other pods", day.others * WITHOUT_CARDS * (PLAIN_POD + FRAME)
    yield "nodes", day.nodes * DAY / NODE_SECONDS * (NODE + FRAME)
    yield "Leases of agents", day.nodes * DAY / LEASE_SECONDS * (LEASE + FRAME)
