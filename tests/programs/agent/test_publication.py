"""What is written about a node, and that nothing is written which the cluster has already."""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.hardware.topology.machines import MACHINES, bent, hgx_h100, l40s, uuid, with_switch_links, without
from tests.programs.agent.looks import NO_DRIVER, driver_away, look, node_object, stored
from webhook.hardware.topology.document import parse_topology
from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology
from webhook.programs.agent.publication import (
    Memory,
    NodeChange,
    Object,
    Observed,
    Publication,
    PublishOptions,
    decide,
    lease_manifest,
    node_change,
    published_topology,
    sound,
)

AT = datetime(2026, 11, 20, 18, 30, 15, 250, tzinfo=UTC)
OPTIONS = PublishOptions(namespace="gpu-topology")
UUID_3 = "GPU-00000000-0000-0000-0000-000000000003"
TWO_CARDS = NodeTopology(
    node="node-1",
    source="nvml",
    gpus=(Gpu(index=0, uuid="GPU-a", name="Tesla T4"), Gpu(index=1, uuid="GPU-b", name="Tesla T4")),
)
TWO_CARDS_JSON = (
    '{"apiVersion":"gpu.topology/v1","kind":"NodeTopology","node":"node-1","source":"nvml",'
    '"gpus":[{"index":0,"uuid":"GPU-a","name":"Tesla T4"},{"index":1,"uuid":"GPU-b","name":"Tesla T4"}]}'
)


def decided(
    now: NodeTopology,
    config_map: Object | None = None,
    *,
    node: Object | None = None,
    memory: Memory | None = None,
    options: PublishOptions = OPTIONS,
) -> Publication:
    node = node or node_object(now.node, labels={"gpu.topology/nvlink": look(now).health.state.value})
    observed = Observed(node=node, config_map=config_map)
    return decide(observed, look(now), memory=memory or Memory(), options=options, at=AT)


def published(topology: NodeTopology) -> Object:
    """The ConfigMap as the API server has it after the first publication."""
    manifest = decided(topology).config_map
    assert manifest is not None
    return stored(manifest)


def test_the_first_publication_of_a_node() -> None:
    assert decided(TWO_CARDS, node=node_object("node-1")) == Publication(
        events=(),
        node=NodeChange(patch={"metadata": {"labels": {"gpu.topology/nvlink": "absent"}}}),
        config_map={
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": "gpu-topology-node-1",
                "namespace": "gpu-topology",
                "labels": {"gpu.topology/node": "node-1"},
                "ownerReferences": [
                    {
                        "apiVersion": "v1",
                        "kind": "Node",
                        "name": "node-1",
                        "uid": "c0ffee00-0000-4000-8000-000000000001",
                    }
                ],
            },
            "data": {"topology.json": TWO_CARDS_JSON},
        },
    )


def test_the_sign_of_life_of_a_node() -> None:
    assert lease_manifest(node_object("node-1"), namespace="gpu-topology", interval=60.0, at=AT) == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "gpu-topology-node-1",
            "namespace": "gpu-topology",
            "labels": {"gpu.topology/node": "node-1"},
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Node",
                    "name": "node-1",
                    "uid": "c0ffee00-0000-4000-8000-000000000001",
                }
            ],
        },
        "spec": {
            "holderIdentity": "node-1",
            "leaseDurationSeconds": 600,
            "renewTime": "2026-11-20T18:30:15.000250Z",
        },
    }


def test_the_sign_of_life_is_called_like_the_config_map_however_long_the_name() -> None:
    name = "n" * 253
    metadata = lease_manifest(node_object(name), namespace="gpu-topology", interval=60.0, at=AT)["metadata"]
    config_map = decided(replace(TWO_CARDS, node=name), node=node_object(name)).config_map
    assert config_map is not None
    assert metadata == config_map["metadata"]
    assert len(metadata["name"]) == 253


@pytest.mark.parametrize("name", MACHINES)
def test_readers_find_the_topology_and_the_file_of_nccl(name: str) -> None:
    data = published(MACHINES[name])["data"]
    assert parse_topology(data["topology.json"], source="test") == MACHINES[name]
    assert data["nccl-topo.xml"].startswith('<system version="1">')


@pytest.mark.parametrize("name", MACHINES)
def test_what_the_cluster_has_already_is_not_written(name: str) -> None:
    topology = MACHINES[name]
    assert decided(topology, published(topology)) == Publication(events=(), node=None, config_map=None)


def test_a_problem_is_published_too() -> None:
    publication = decided(driver_away(hgx_h100()), node=node_object("hgx-h100"))
    assert publication.config_map is not None
    assert list(publication.config_map["data"]) == ["topology.json"]
    found = published_topology(publication.config_map)
    assert found is not None
    assert found.problem == NO_DRIVER
    assert publication.node == NodeChange(patch={"metadata": {"labels": {"gpu.topology/nvlink": "absent"}}})


def test_a_node_in_mig_mode_has_no_file_for_nccl() -> None:
    topology = hgx_h100()
    for gpu in topology.gpus:
        topology = bent(topology, gpu.index, mig_mode=MigMode.ENABLED)
    assert list(published(topology)["data"]) == ["topology.json"]


def edit_data(config_map: Object) -> None:
    config_map["data"]["topology.json"] = "{}"


def edit_file(config_map: Object) -> None:
    config_map["data"]["nccl-topo.xml"] += " "


def remove_file(config_map: Object) -> None:
    del config_map["data"]["nccl-topo.xml"]


def remove_data(config_map: Object) -> None:
    del config_map["data"]


def remove_label(config_map: Object) -> None:
    del config_map["metadata"]["labels"]


def change_label(config_map: Object) -> None:
    config_map["metadata"]["labels"]["gpu.topology/node"] = "other"


def remove_owner(config_map: Object) -> None:
    del config_map["metadata"]["ownerReferences"]


def change_owner(config_map: Object) -> None:
    config_map["metadata"]["ownerReferences"][0]["uid"] = "c0ffee00-0000-4000-8000-00000000ffff"


@pytest.mark.parametrize(
    "edit",
    [edit_data, edit_file, remove_file, remove_data, remove_label, change_label, remove_owner, change_owner],
)
@pytest.mark.parametrize("memory", [Memory(), Memory().after(hgx_h100())], ids=["restarted", "running"])
def test_what_somebody_changed_is_repaired(edit: Callable[[Object], None], memory: Memory) -> None:
    right = published(hgx_h100())
    wrong = copy.deepcopy(right)
    edit(wrong)
    publication = decided(hgx_h100(), wrong, memory=memory)
    assert publication.config_map is not None
    assert stored(publication.config_map) == right
    assert publication.events == ()


def test_what_somebody_added_is_left() -> None:
    config_map = published(hgx_h100())
    config_map["data"]["notes"] = "rack 7"
    config_map["metadata"]["labels"]["team"] = "ml"
    config_map["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = False
    config_map["metadata"]["annotations"] = {"checked": "yes"}
    assert decided(hgx_h100(), config_map).config_map is None


def test_a_deleted_config_map_is_written_again_without_events() -> None:
    publication = decided(hgx_h100(), None, memory=Memory().after(hgx_h100()))
    assert publication.config_map is not None
    assert publication.events == ()


def test_a_node_that_was_created_anew_owns_the_config_map() -> None:
    config_map = published(hgx_h100())
    node = node_object("hgx-h100", labels={"gpu.topology/nvlink": "healthy"})
    node["metadata"]["uid"] = "c0ffee00-0000-4000-8000-0000000000aa"
    publication = decided(hgx_h100(), config_map, node=node)
    assert publication.config_map is not None
    (owner,) = publication.config_map["metadata"]["ownerReferences"]
    assert owner["uid"] == "c0ffee00-0000-4000-8000-0000000000aa"


def test_a_changed_topology_is_published_with_its_label_and_its_event() -> None:
    node = node_object("hgx-h100", labels={"gpu.topology/nvlink": "healthy", "other": "label"})
    publication = decided(with_switch_links(hgx_h100(), 3, 12), published(hgx_h100()), node=node)
    assert publication.node == NodeChange(patch={"metadata": {"labels": {"gpu.topology/nvlink": "degraded"}}})
    assert publication.config_map is not None
    (event,) = publication.events
    name = event["metadata"].pop("name")
    assert re.fullmatch(r"hgx-h100\.[0-9a-f]{16}", name)
    assert event == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "default"},
        "eventTime": "2026-11-20T18:30:15.000250Z",
        "type": "Warning",
        "reason": "NVLinkDown",
        "action": "Discover",
        "note": f"GT701: NVLinks are down: GPU3 {UUID_3}: 12 of 18 links up, 18 before",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Node",
            "name": "hgx-h100",
            "uid": "c0ffee00-0000-4000-8000-000000000001",
        },
        "reportingController": "gpu.topology/agent",
        "reportingInstance": "hgx-h100",
    }


def event_names(config_map: Object, **options: Any) -> list[str]:
    publication = decided(with_switch_links(hgx_h100(), 3, 12), config_map, **options)
    return [event["metadata"]["name"] for event in publication.events]


def test_a_round_that_is_repeated_gives_the_same_names_to_its_events() -> None:
    config_map = published(hgx_h100())
    assert event_names(config_map) == event_names(config_map, memory=Memory().after(hgx_h100()))


def test_what_happens_again_later_is_another_event() -> None:
    config_map = published(hgx_h100())
    later = copy.deepcopy(config_map)
    later["metadata"]["resourceVersion"] = "99"
    assert event_names(config_map) != event_names(later)


def test_events_are_in_universal_time() -> None:
    at = datetime(2026, 11, 20, 19, 30, tzinfo=timezone(timedelta(hours=1)))
    node = node_object("hgx-h100")
    observed = Observed(node=node, config_map=None)
    publication = decide(observed, look(without(hgx_h100(), 2)), memory=Memory(), options=OPTIONS, at=at)
    assert publication.events[0]["eventTime"] == "2026-11-20T18:30:00.000000Z"


def test_memory_is_trusted_more_than_a_config_map_that_anybody_may_have_edited() -> None:
    forged = published(without(hgx_h100(), 2))
    publication = decided(hgx_h100(), forged, memory=Memory().after(hgx_h100()))
    assert publication.events == ()
    assert publication.config_map is not None


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"apiVersion":"gpu.topology/v2","kind":"NodeTopology"}'])
def test_a_config_map_that_cannot_be_read_counts_as_none(text: str) -> None:
    config_map = published(with_switch_links(hgx_h100(), 3, 12))
    config_map["data"]["topology.json"] = text
    publication = decided(with_switch_links(hgx_h100(), 3, 12), config_map)
    assert [event["reason"] for event in publication.events] == ["NVLinkDown"]
    assert publication.config_map is not None


def test_the_memory_outlives_a_driver_that_is_away() -> None:
    memory = Memory().after(hgx_h100()).after(driver_away(hgx_h100()))
    publication = decided(without(hgx_h100(), 2), published(driver_away(hgx_h100())), memory=memory)
    assert [event["reason"] for event in publication.events] == ["TopologyReadable", "GpuLost"]


def test_a_right_label_is_left_as_it_is() -> None:
    node = node_object("l40s", labels={"gpu.topology/nvlink": "absent"})
    assert node_change(node, look(l40s()), before=None, cordon=False, at=AT) is None


def test_a_wrong_label_is_corrected_whoever_wrote_it() -> None:
    node = node_object("l40s", labels={"gpu.topology/nvlink": "healthy"})
    assert node_change(node, look(l40s()), before=None, cordon=False, at=AT) == NodeChange(
        patch={"metadata": {"labels": {"gpu.topology/nvlink": "absent"}}}
    )


def test_a_cordon_insists_on_the_version_of_the_node_that_was_read() -> None:
    node = node_object(
        "hgx-h100",
        labels={"gpu.topology/nvlink": "degraded"},
        annotations={"hami.io/device-cordon": "GPU-of-an-admin", "other": "annotation"},
        version="7002",
    )
    found = node_change(node, look(with_switch_links(hgx_h100(), 3, 12)), before=None, cordon=True, at=AT)
    assert found is not None
    assert found.patch == {
        "metadata": {
            "annotations": {
                "hami.io/device-cordon": f"GPU-of-an-admin,{UUID_3}",
                "gpu.topology/cordoned": f"{UUID_3}=links",
            },
            "resourceVersion": "7002",
        }
    }
    assert [(event["reason"], event["action"], event["note"]) for event in found.events] == [
        ("GpuCordoned", "Cordon", f"GT708: HAMi allocates no more of these GPUs: {UUID_3}")
    ]


def test_an_annotation_that_is_no_longer_needed_is_removed() -> None:
    node = node_object(
        "hgx-h100",
        labels={"gpu.topology/nvlink": "healthy"},
        annotations={"hami.io/device-cordon": uuid(3), "gpu.topology/cordoned": f"{uuid(3)}=links"},
    )
    found = node_change(node, look(hgx_h100()), before=None, cordon=True, at=AT)
    assert found is not None
    assert found.patch["metadata"]["annotations"] == {"hami.io/device-cordon": None, "gpu.topology/cordoned": None}
    assert [event["reason"] for event in found.events] == ["GpuUncordoned"]


def test_an_annotation_that_stays_is_not_written() -> None:
    node = node_object(
        "hgx-h100",
        labels={"gpu.topology/nvlink": "healthy"},
        annotations={"hami.io/device-cordon": "GPU-of-an-admin", "gpu.topology/cordoned": f"{uuid(3)}=links"},
    )
    found = node_change(node, look(hgx_h100()), before=None, cordon=True, at=AT)
    assert found is not None
    assert found.patch["metadata"]["annotations"] == {"gpu.topology/cordoned": None}
    assert found.events == ()


def test_nothing_is_cordoned_unasked() -> None:
    publication = decided(without(hgx_h100(), 2), published(hgx_h100()))
    assert publication.node is None


def test_deciding_changes_nothing_that_was_observed() -> None:
    node, config_map = node_object("hgx-h100"), published(hgx_h100())
    before = copy.deepcopy((node, config_map))
    decided(
        without(hgx_h100(), 2), config_map, node=node, options=PublishOptions(namespace="gpu-topology", cordon=True)
    )
    assert (node, config_map) == before


def test_a_topology_that_readers_would_refuse_becomes_a_problem() -> None:
    twins = replace(TWO_CARDS, gpus=(TWO_CARDS.gpus[0], TWO_CARDS.gpus[0]))
    assert sound(twins) == NodeTopology(
        node="node-1",
        source="nvml",
        problem='the topology of node node-1: expected each index of a GPU once, found "0 twice"',
    )


@pytest.mark.parametrize("name", MACHINES)
def test_a_sound_topology_stays_as_it_is(name: str) -> None:
    assert sound(MACHINES[name]) == MACHINES[name]


def test_names_of_a_node_with_a_long_name_fit() -> None:
    name = ".".join(["node-with-a-rather-long-name"] * 8 + ["x" * 21])
    assert len(name) == 253
    topology = with_switch_links(replace(hgx_h100(), node=name), 3, 12)
    publication = decided(topology, node=node_object(name))
    assert publication.config_map is not None
    metadata = publication.config_map["metadata"]
    assert len(metadata["name"]) == 253
    assert len(metadata["labels"]["gpu.topology/node"]) == 63
    assert metadata["ownerReferences"][0]["name"] == name
    found = published_topology(publication.config_map)
    assert found is not None
    assert found.node == name
    (event,) = publication.events
    assert len(event["metadata"]["name"]) <= 253
    assert len(event["reportingInstance"]) == 128
    assert event["regarding"]["name"] == name
