"""What the planner holds for free, kept up to date change by change."""

from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.place.objects import described, encoded, nodes, pods, record_of, world_of
from webhook.decisions.node_record import NodeRecord, read_node
from webhook.decisions.place.pod import PodRecord
from webhook.decisions.place.world import World
from webhook.hardware.topology.model import NodeTopology

changes = st.lists(st.one_of(pods(), nodes(), st.sampled_from(["one", "two", "three"])), max_size=24)


@given(changes, st.booleans())
def test_a_world_kept_change_by_change_is_the_one_that_hears_of_all_at_once(
    told: list[object], nodes_first: bool
) -> None:
    world = World()
    present: dict[str, PodRecord] = {}
    known: dict[str, tuple[NodeRecord | None, NodeTopology | None]] = {}
    for change in told:
        if isinstance(change, dict):
            key = f"team/{change['metadata']['name']}"
            record = record_of(change, present.get(key))
            world.pod_changed(key, present.get(key), record)
            present[key] = record
        elif isinstance(change, str):
            key = f"team/{change}"
            world.pod_changed(key, present.pop(key, None), None)
        elif isinstance(change, tuple):
            name, node, topology = change
            before = known.get(name, (None, None))[0]
            found = read_node(encoded(node), name, before) if node else None
            known[name] = found, topology
            world.node_changed(name, found, topology)
    anew = described(world_of(present, known, nodes_first=nodes_first))
    assert described(world) == anew
    for card, node in anew["holders"]:
        assert world.is_held(card, node) == bool(world.holders(card, node))
    for pod in present.values():
        mates = world.mates(pod)
        assert world.nodes_of_mates(pod) == {mate.node for mate in mates if mate.node}
    for pod in list(present.values()):
        rest = {key: other for key, other in present.items() if other is not pod}
        gains = world.gains
        with world.without(pod):
            assert described(world) == described(world_of(rest, known, nodes_first=nodes_first))
        assert world.gains == gains
    assert described(world) == anew
