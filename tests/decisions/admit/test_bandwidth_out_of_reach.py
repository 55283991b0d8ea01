"""A required bandwidth that no known pair of GPUs has is told at admission, with the best there is."""

import msgspec
import pytest

from tests.hardware.topology import machines
from tests.judge import HAMI_2_9, TEAM_A, policy
from tests.pods import Manifest, container, pod
from webhook.decisions.admit.admission import admit
from webhook.decisions.fastest_pair import FastestPair, fastest_pair
from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Pod


def told(manifest: Manifest, best: FastestPair | None) -> list[str]:
    found = msgspec.json.decode(to_json(manifest), type=Pod)
    outcome = admit(found, TEAM_A, policy(), HAMI_2_9, fastest=lambda: best)
    assert all(len(warning) < 120 for warning in outcome.warnings)
    return [warning for warning in outcome.warnings if warning.startswith("GT657")]


def asking(bandwidth: str, gpus: int = 2, **options: str) -> Manifest:
    ours = {"gpu.topology/min-bandwidth": bandwidth, "gpu.topology/inject": "true"}
    return pod(container(gpus=gpus), annotations=ours | {f"gpu.topology/{key}": text for key, text in options.items()})


H100 = FastestPair(370.8, 900)
SAID = "GT657: min-bandwidth 450 is met by no known node: the fastest pair has 370.8 GB/s"


def test_it_is_told_with_the_figure_of_the_datasheet() -> None:
    assert told(asking("450"), H100) == [SAID + ", 900 in its datasheet"]
    assert told(asking("450"), FastestPair(370.8, 0)) == [SAID]


@pytest.mark.parametrize("bandwidth", ["370.8", "100"])
def test_what_some_pair_has_is_not_told(bandwidth: str) -> None:
    assert told(asking(bandwidth), H100) == []


def test_what_is_not_known_is_not_told() -> None:
    assert told(asking("450"), None) == []


def test_one_gpu_has_no_pair() -> None:
    assert told(asking("450", gpus=1), H100) == []


@pytest.mark.parametrize(
    ("topology", "bandwidth", "datasheet"),
    [
        (machines.hgx_a100(), 240.0, 600),
        (machines.hgx_h100(), 370.8, 900),
        (machines.dgx1_v100(), 40.0, 300),
        (machines.l40s(), 24.0, 0),
    ],
    ids=lambda value: value.node if isinstance(value, NodeTopology) else "",
)
def test_the_fastest_pair_of_a_machine(topology: NodeTopology, bandwidth: float, datasheet: float) -> None:
    found = fastest_pair(KnownNode(topology, origin=Origin.AGENT))
    assert found is not None
    assert (found.bandwidth, found.datasheet) == (bandwidth, datasheet)
