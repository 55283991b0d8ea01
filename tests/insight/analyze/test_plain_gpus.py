"""A cluster whose GPUs only a plain device plugin serves: one finding, and none where that is not known."""

import pytest

from tests.insight.analyze.clusters import Cluster, h20, scheduler


def plain() -> Cluster:
    """A cluster without HAMi, whose nodes offer GPUs."""
    cluster = Cluster()
    for kind, space, name in list(cluster.objects):
        if kind == "Pod" or (kind, name) == ("Deployment", scheduler()["metadata"]["name"]):
            cluster.remove(kind, name, space)
        if kind == "Node":
            node = cluster.objects[kind, space, name]
            node["metadata"]["annotations"] = {}
            node["status"] = {"allocatable": {"nvidia.com/gpu": "8"}}
    return cluster


def codes(found: Cluster, **settings: object) -> list[str]:
    return [each.code for each in found.analyzed(**settings)]


def test_the_cluster_is_told_of_once_and_who_schedules_is_no_question() -> None:
    cluster = plain()
    assert codes(cluster).count("GT182") == 1
    assert "GT824" not in codes(cluster)
    (found,) = [each for each in cluster.analyzed() if each.code == "GT182"]
    assert "The webhook leaves pods that ask for nvidia.com/gpu as they are" in found.text


def test_with_a_scheduler_of_hami_it_is_not() -> None:
    cluster = plain()
    cluster.add(scheduler())
    assert "GT182" not in codes(cluster)


def test_with_one_node_that_hami_has_annotated_it_is_not() -> None:
    cluster = plain()
    cluster.add_node(h20("another"))
    assert "GT182" not in codes(cluster)


@pytest.mark.parametrize("unread", ["Deployment", "Node", "DeviceClass"])
def test_where_something_was_not_read_it_is_not_known(unread: str) -> None:
    cluster = plain()
    cluster.read.remove(unread)
    assert "GT182" not in codes(cluster)


def test_nodes_without_gpus_are_no_plain_device_plugin() -> None:
    cluster = plain()
    for (kind, _, _), found in cluster.objects.items():
        if kind == "Node":
            found["status"]["allocatable"] = {"cpu": "8"}
    assert "GT182" not in codes(cluster)


def test_the_configuration_says_that_hami_is_there() -> None:
    assert "GT182" not in codes(plain(), cluster={"hamiVersion": "2.9.0"})


def test_a_device_class_that_serves_the_resource_is_another_way() -> None:
    cluster = plain()
    served = {"extendedResourceName": "nvidia.com/gpu"}
    metadata = {"name": "gpu.nvidia.com"}
    cluster.add({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": served})
    assert "GT182" not in codes(cluster)
