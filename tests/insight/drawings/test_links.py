"""The NVLinks of a node as every picture draws them."""

from tests.hardware.topology.machines import a100_pcie_bridged, bent
from webhook.hardware.topology.model import Gpu, MigMode, NodeTopology, NvLink
from webhook.insight.drawings.links import Link, nvlinks


def test_a_link_is_up_if_both_ends_say_so() -> None:
    gpus = (
        Gpu(index=0, name="GPU", nvlinks=(NvLink(target="GPU1", count=2, active=2),)),
        Gpu(index=1, name="GPU", nvlinks=(NvLink(target="GPU0", count=2, active=1),)),
    )
    (found,) = nvlinks(NodeTopology(node="n", source="nvml", gpus=gpus))
    assert found == Link(one=0, other=1, count=2, active=1)
    assert found.lost == 1


def test_a_gpu_in_mig_mode_has_no_links() -> None:
    topology = a100_pcie_bridged()
    whole = list(nvlinks(topology))
    sliced = list(nvlinks(bent(topology, 0, mig_mode=MigMode.ENABLED)))
    assert any(0 in (link.one, link.other) for link in whole)
    assert sliced == [link for link in whole if 0 not in (link.one, link.other)]
