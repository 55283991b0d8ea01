"""The word for a pod: golden cases, each with its opposite, and the law that yes needs a proof."""

from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.hardware.traffic.windows import AT, MB, ago, steady
from tests.insight.analyze.clusters import h20, pairs, running
from tests.insight.explain.situations import H20, annotated, injected, known, on, told
from tests.insight.explain.test_measurements import tells
from tests.pods import Manifest, container, pod
from webhook.hardware.traffic.model import Traffic
from webhook.insight.explain.findings import Judgement, Nvlink
from webhook.insight.explain.nvlink import numbers, numbers_text

VERIFIED = [{"name": "gpu-topology-remap", "state": {"terminated": {"exitCode": 0}}}]


def bound(*indices: int, **fields: Any) -> Manifest:
    """A pod that admission prepared and that has these cards of a node with eight H20 behind a switch."""
    return running("train", "switched", *indices, **fields)


def verified(manifest: Manifest) -> Manifest:
    return manifest | {"status": {"phase": "Running", "initContainerStatuses": VERIFIED}}


def word(manifest: Manifest, **more: Any) -> Judgement:
    return told(manifest, **{"sources": known(h20("switched")), **more}).judgement


def plain(*, env: dict[str, str] | None = None, **fields: Any) -> Manifest:
    """A pod that the webhook has not touched, with two linked cards."""
    variables = [{"name": name, "value": value} for name, value in (env or {}).items()]
    return on(pod(container(gpus=2, env=variables, **fields)), "h20-node-1", list(H20[:2]))


def test_a_pod_is_only_green_once_its_start_was_verified() -> None:
    assert word(verified(bound(0, 1))) == Judgement(
        Nvlink.YES, "every condition that decides holds, and the pod verified its GPUs when it started"
    )
    waits = word(bound(0, 1))
    assert (waits.nvlink, waits.code) == ("unknown", "GT362")
    assert (
        waits.reason == "every condition that decides holds; the remap container has not verified the GPUs of the pod"
    )


def test_a_library_that_is_preloaded_is_reported_to_cost_nvlink_and_not_certain_to() -> None:
    """HAMi-core may keep CUDA's peer access from working: reported, not documented, so the word is unknown."""
    found = word(plain(), sources=None)
    assert (found.nvlink, found.code) == ("unknown", "GT210")
    assert found.sureness == "reported"
    assert found.remedy.startswith("Let the webhook do it, or write CUDA_DISABLE_CONTROL")


def test_cards_without_a_link_have_none() -> None:
    cards = running("unlucky", "paired", 0, 2)
    found = word(verified(cards), sources=known(pairs("paired")))
    assert (found.nvlink, found.code) == ("no", "GT330")
    linked = word(verified(running("pair", "paired", 0, 1)), sources=known(pairs("paired")))
    assert linked.nvlink == "yes"


def test_a_start_that_failed_is_the_first_that_is_told() -> None:
    ended = [{"name": "gpu-topology-remap", "state": {"terminated": {"exitCode": 11, "message": "GPU-7 is gone"}}}]
    unlinked = running("unlucky", "paired", 0, 2) | {"status": {"initContainerStatuses": ended}}
    found = word(unlinked, sources=known(pairs("paired")))
    assert (found.nvlink, found.code) == ("no", "GT367")
    assert "exit code 11: GPU-7 is gone" in found.reason


def test_one_card_has_nothing_to_join_and_a_failed_start_all_the_same() -> None:
    single = on(injected(annotated(pod(container(gpus=1)), inject="true")), "switched", ["GPU-switched.0"])
    assert word(single).nvlink == "-"
    waiting = [{"name": "gpu-topology-remap", "state": {"waiting": {"reason": "ErrImagePull"}}}]
    found = word(single | {"status": {"initContainerStatuses": waiting}})
    assert (found.nvlink, found.code) == ("no", "GT365")


@pytest.mark.parametrize(("moved", "expected"), [(100_000 * MB, "yes"), (0, "unknown")], ids=["used", "unused"])
def test_bytes_that_were_counted_prove_it(moved: int, expected: str) -> None:
    manifest = plain() | {"status": {"phase": "Running", "startTime": "2026-11-23T01:20:00Z"}}
    cards = {gpu.uuid: steady(nvlink=moved) for gpu in machines.h20().gpus}
    sources = known(machines.h20(), traffic=Traffic(at=AT, cards=cards))
    assert word(manifest, sources=sources, asked_at=ago(-20)).nvlink == expected


@pytest.mark.parametrize(("cards", "expected"), [((0, 1), "yes"), ((0, 5), "unknown")], ids=["its own", "others"])
def test_a_measurement_of_the_pods_gpus_proves_it(cards: tuple[int, int], expected: str) -> None:
    published = tells([H20[index] for index in cards])
    assert word(annotated(plain(), measured=published), sources=None).nvlink == expected


def test_no_way_to_yes_goes_past_a_link_that_is_missing() -> None:
    """A link that is not there is certain, whatever was counted or measured."""
    topology = pairs("paired")
    uuids = [topology.gpus[index].uuid for index in (0, 2)]
    unlinked = annotated(verified(running("unlucky", "paired", 0, 2)), measured=tells(uuids))
    assert word(unlinked, sources=known(topology)).nvlink == "no"


def test_the_numbers_have_each_word() -> None:
    words = [Nvlink.YES, Nvlink.UNKNOWN, Nvlink.UNKNOWN, Nvlink.NOTHING_TO_JOIN]
    assert numbers(words) == {"yes": 1, "no": 0, "unknown": 2, "-": 1}
    assert numbers_text(words) == "NVLink of 4 pods with GPUs: yes 1, unknown 2, nothing to join 1"
    assert numbers_text([]) == "NVLink: 0 pods with GPUs"
