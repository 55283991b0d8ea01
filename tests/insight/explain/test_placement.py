"""Whether the planner chose the pod's cards, and if the pod waits, for what."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, annotated, finding, injected, known, on, said, told
from tests.judge import HAMI_2_9
from tests.pods import Manifest, pod
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy, admit_policy, parse_config
from webhook.insight.explain.evidence import Reading
from webhook.insight.explain.findings import Finding, Reach, Report
from webhook.insight.explain.placement import PLACEMENT
from webhook.objects.planner_signs import PlannerSigns, planner_signs
from webhook.words.catalogue import waiting
from webhook.words.catalogue.entry import Entry

GATE = "gpu.topology/place"
NODE = "h20-node-1"
PAIR = (H20[0], H20[1])
CREATED = "2026-11-22T12:00:00Z"
AT = datetime(2026, 11, 22, 12, 5, tzinfo=UTC)
ALIVE = PlannerSigns(is_alive=True, said="Lease gpu/gpu-topology-place is held by planner-0 and was renewed 3 s ago")
GONE = PlannerSigns(is_alive=False, said="Lease gpu/gpu-topology-place was renewed 10 minutes ago")
UNREAD = PlannerSigns(problem="get Lease gpu/gpu-topology-place: you may not (403)")
PLACED = (
    f'{{"node":"{NODE}","cards":["{PAIR[0]}","{PAIR[1]}"],"link":"NVSwitch","bandwidth":370.8,"share":1.0,'
    f'"attempt":1,"at":"{CREATED}"}}'
)
CHOSEN = f"GPU0 and GPU1 of node {NODE} (NVSwitch, 370.8 GB/s)"
"""What that means, in words."""


def rules(mode: str = "on") -> AdmitPolicy:
    return admit_policy(parse_config({"placement": {"mode": mode}}), version="1.0.0")


def prepared(mode: str = "on", **options: str) -> Manifest:
    """A pod as admission leaves it, that exists and has no node."""
    said_of_it = {key.replace("_", "-"): value for key, value in options.items()}
    manifest = annotated(pod(schedulerName="hami-scheduler"), **said_of_it)
    facts = ClusterFacts(hami=HAMI_2_9.hami, kubernetes=HAMI_2_9.kubernetes, has_planner=True)
    found = injected(manifest, cluster=facts, rules=rules(mode))
    found["metadata"] |= {"uid": "u-1", "creationTimestamp": CREATED}
    return found


def conditioned(manifest: Manifest, kind: str, status: str, reason: str, message: str) -> Manifest:
    """The pod with one more condition."""
    conditions = manifest.get("status", {}).get("conditions", [])
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    return manifest | {"status": {"phase": "Pending", "conditions": [*conditions, condition]}}


def waits(reason: str, message: str, **options: str) -> Manifest:
    return conditioned(prepared(**options), "gpu.topology/Placed", "False", reason, message)


def past_the_gate(manifest: Manifest, label: str, **annotations: str) -> Manifest:
    """The pod after the planner opened its gate."""
    metadata = manifest["metadata"]
    spec = {key: value for key, value in manifest["spec"].items() if key != "schedulingGates"}
    metadata = metadata | {
        "labels": (metadata.get("labels") or {}) | {"gpu.topology/placement": label},
        "annotations": metadata["annotations"] | annotations,
    }
    return manifest | {"metadata": metadata, "spec": spec}


def pinned(placed: str = PLACED, cards: str = ",".join(PAIR), label: str = "pinned", **options: str) -> Manifest:
    keys = {"gpu.topology/placed": placed, "nvidia.com/use-gpuuuid": cards}
    return past_the_gate(prepared(**options), label, **keys)


def refused(manifest: Manifest) -> Manifest:
    """The scheduler found no node for the pod."""
    said = "0/2 nodes are available: 2 CardUuidMismatch."
    return conditioned(manifest, "PodScheduled", "False", "Unschedulable", said)


def report(manifest: Manifest, planner: PlannerSigns = ALIVE, mode: str = "on", **more: Any) -> Report:
    alive = planner.is_alive is True
    facts = ClusterFacts(hami=HAMI_2_9.hami, kubernetes=HAMI_2_9.kubernetes, has_planner=alive)
    more = {"asked_at": AT, "planner": planner, **more}
    return told(manifest, cluster=facts, rules=rules(mode), sources=known(machines.h20()), **more)


def found(manifest: Manifest, planner: PlannerSigns = ALIVE, mode: str = "on", **more: Any) -> Finding:
    return finding(report(manifest, planner, mode, **more), PLACEMENT)


def test_a_waiting_pod_repeats_what_the_planner_says_with_what_to_do() -> None:
    one = found(waits("NoFreeCards", "GT621: no node has 2 free cards for the pod: a is full"))
    assert (one.verdict, one.code) == ("unknown", "GT621")
    assert one.evidence == (
        f"the pod waits behind the scheduling gate {GATE} for 5 minutes: "
        "no node has 2 free cards for the pod: a is full"
    )
    assert one.remedy == (
        "Wait until cards are given back, ask for fewer, or have a node uncordoned that the message names; "
        "no pod is evicted for its cards, whatever the priority"
    )


def test_from_a_file_it_says_since_when_the_pod_waits() -> None:
    one = found(waits("NoFreeCards", "GT621: no node is free"), asked_at=None)
    assert f"behind the scheduling gate {GATE} since 2026-11-22 12:00:00 UTC: no node is free" in one.evidence


@pytest.mark.parametrize("message", ["", "made up", "GT999: made up", "GT621: ", "GT621"])
def test_a_condition_that_the_planner_cannot_have_written_says_nothing(message: str) -> None:
    one = found(waits("NoFreeCards", message))
    assert (one.verdict, one.code) == ("unknown", "GT641")
    assert "the planner has not said why yet" in one.evidence
    assert found(prepared()).code == "GT641"


def test_every_sentence_of_the_planner_can_be_repeated_without_its_values() -> None:
    entries = [entry for entry in vars(waiting).values() if isinstance(entry, Entry)]
    assert [entry.code for entry in entries if "{" in entry.fix] == []


@pytest.mark.parametrize(
    ("options", "then"),
    [
        ({}, "the webhook lets it go 300 s after the last sign of one (placement.releaseSeconds)"),
        ({"on_violation": "deny"}, "with gpu.topology/on-violation: deny it waits until one is"),
    ],
    ids=["warn", "deny"],
)
def test_a_pod_that_waits_for_a_planner_that_is_gone_fails(options: dict[str, str], then: str) -> None:
    manifest = waits("NoFreeCards", "GT621: no node is free", **options)
    one = found(manifest, GONE)
    assert (one.verdict, one.code) == ("fails", "GT640")
    assert one.evidence == (
        f"the pod waits behind the scheduling gate {GATE} for 5 minutes, and no planner is alive: {GONE.said}; {then}"
    )
    assert one.remedy.endswith("or opens the gates: gpu-topology place release --all")
    assert found(manifest, ALIVE).code == "GT621"


def test_a_planner_that_may_not_be_asked_about_is_no_dead_one() -> None:
    one = found(waits("NoFreeCards", "GT621: no node is free"), UNREAD)
    assert (one.verdict, one.code) == ("unknown", "GT621")
    assert one.evidence.endswith(f"; whether a planner is alive is not known: {UNREAD.problem}")
    assert one.remedy.endswith(". Have the permissions to get MutatingWebhookConfigurations and Leases")
    assert "alive" not in found(waits("NoFreeCards", "GT621: no node is free"), PlannerSigns()).evidence


def test_a_pod_of_a_group_that_holds_its_cards_behind_the_gate_says_so() -> None:
    manifest = prepared()
    manifest["metadata"]["annotations"] |= {"gpu.topology/placed": PLACED, "nvidia.com/use-gpuuuid": ",".join(PAIR)}
    one = found(conditioned(manifest, "gpu.topology/Placed", "True", "Pinned", "GT620: node a: GPU0"))
    assert (one.verdict, one.code) == ("unknown", "GT642")
    assert one.evidence.endswith(f"for 5 minutes, and holds its cards: {CHOSEN}")


def with_choice(manifest: Manifest, reason: str, message: str, status: str = "False") -> Manifest:
    return conditioned(manifest, "gpu.topology/Placed", status, reason, message)


NEVER = "GT623: the pod asks for 2 cards, no node has more than 1"
NO_ROOM = "GT652: node a: GPU0; no room"
PREEMPTING = PLACED.replace('"share"', '"preempts":true,"share"')
LOST = with_choice(
    refused(pinned(label="released", on_violation="deny")), "CardsLost", "GT631: the cards are no longer free"
)
RELEASED = past_the_gate(prepared(), "released")
GATED = conditioned(pinned(), "PodScheduled", "False", "SchedulingGated", "Scheduling is blocked")
NONE_WITH_THEM = f"the planner chose {CHOSEN}, and the scheduler finds no node with them: "


@pytest.mark.parametrize(
    ("manifest", "planner", "verdict", "code", "evidence"),
    [
        (waits("NeverFits", NEVER, on_violation="deny"), ALIVE, "fails", "GT623", ""),  # it waits for ever
        (waits("NeverFits", NEVER), ALIVE, "unknown", "GT623", ""),
        (waits("NoFreeCards", "GT621: none", on_violation="deny"), ALIVE, "unknown", "GT621", ""),
        (with_choice(refused(pinned()), "Pinned", NO_ROOM, "True"), ALIVE, "unknown", "GT644", ""),
        (
            with_choice(refused(pinned(PREEMPTING)), "Pinned", NO_ROOM, "True"),
            ALIVE,
            "unknown",
            "GT652",
            "node a: GPU0; no room",
        ),
        (refused(pinned()), ALIVE, "unknown", "GT644", f"{NONE_WITH_THEM}0/2 nodes are available: 2 CardUuidMismatch."),
        (pinned(), ALIVE, "unknown", "GT643", f"the planner chose {CHOSEN}, and the scheduler has not looked at the"),
        (GATED, ALIVE, "unknown", "GT643", ""),
        (pinned(), GONE, "unknown", "GT643", ""),
        (refused(pinned()), GONE, "fails", "GT645", ""),
        (LOST, ALIVE, "unknown", "GT631", "the cards are no longer free"),
        (LOST, GONE, "fails", "GT645", ""),
        (
            pinned(cards=H20[5]),
            ALIVE,
            "unknown",
            "GT646",
            f"the planner chose {CHOSEN}, and nvidia.com/use-gpuuuid names other cards now",
        ),
        (pinned(placed="{"), ALIVE, "unknown", "GT647", ""),
        (RELEASED, ALIVE, "unknown", "GT648", ""),
        (with_choice(RELEASED, "Released", "GT628: no room"), ALIVE, "unknown", "GT628", "no room"),
        (on(pinned(), NODE, list(PAIR)), ALIVE, "holds", "", f"HAMi gave what the planner chose: {CHOSEN}"),
    ],
)
def test_a_pod_says_what_became_of_the_choice_of_its_cards(
    manifest: Manifest, planner: PlannerSigns, verdict: str, code: str, evidence: str
) -> None:
    one = found(manifest, planner)
    assert (one.verdict, one.code, one.evidence[: len(evidence)]) == (verdict, code, evidence)


def test_what_was_given_up_for_it_is_said() -> None:
    placed = PLACED.replace('"share":1.0', '"share":0.5').replace('"attempt":1', '"attempt":3')
    placed = placed.replace("}", ',"gaveUp":["no 2 free cards on one NUMA node"]}')
    one = found(on(pinned(placed), NODE, list(PAIR)))
    assert one.evidence == (
        f"HAMi gave what the planner chose: {CHOSEN}, choice 3; 50% of the ring bandwidth that such a node can give; "
        "no 2 free cards on one NUMA node"
    )


def test_other_cards_than_those_that_were_chosen_fail_and_stop_no_link() -> None:
    manifest = on(pinned(), NODE, [H20[2], H20[3]])
    one = found(manifest)
    assert (one.verdict, one.code, one.stops) == ("fails", "GT632", False)
    assert one.evidence == "the planner chose GPU0 and GPU1, HAMi gave GPU2 and GPU3"
    assert report(manifest).reach is report(on(pinned(), NODE, list(PAIR))).reach is Reach.ALL


@pytest.mark.parametrize(
    ("mode", "planner", "said_of_it"),
    [
        ("off", ALIVE, "no pod waits: placement is off in this cluster"),
        ("observe", ALIVE, "no pod waits: placement only observes in this cluster"),
        ("on", GONE, f"no pod waits: no planner is alive: {GONE.said}"),
        ("on", ALIVE, "the pod did not wait: when it was created no planner was alive, or placement was off"),
    ],
)
def test_where_no_pod_waits_it_does_not_matter(mode: str, planner: PlannerSigns, said_of_it: str) -> None:
    assert said(report(prepared("off"), planner, mode), PLACEMENT) == ("not-needed", said_of_it)
    assert said(report(on(prepared("off"), NODE, list(PAIR)), planner, mode), PLACEMENT) == ("not-needed", said_of_it)


def test_without_the_configuration_of_the_cluster_its_mode_is_not_claimed() -> None:
    one = found(prepared("off"), mode="observe", reading=Reading(is_configured=False))
    assert one.evidence.startswith("in the default configuration no pod waits for the planner; --config says how")


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("gpu.topology/place", "off", "gpu.topology/place is off"),
        ("nvidia.com/nouse-gpuuuid", H20[0], "the pod names its cards itself, in nvidia.com/nouse-gpuuuid"),
    ],
)
def test_a_pod_whose_cards_the_planner_does_not_choose_says_why(key: str, value: str, why: str) -> None:
    manifest = prepared("off")
    manifest["metadata"]["annotations"][key] = value
    expected = ("not-needed", f"the planner does not choose the cards of this pod: {why}")
    assert said(report(manifest), PLACEMENT) == expected
    assert said(report(on(manifest, NODE, list(PAIR))), PLACEMENT) == expected


def test_a_pod_that_was_not_prepared_never_waits() -> None:
    expected = ("not-needed", "only pods that the webhook prepared wait for the planner")
    assert said(report(on(pod(), NODE, list(PAIR))), PLACEMENT) == expected


@pytest.mark.parametrize(
    ("lease", "alive", "words"),
    [
        (None, False, "there is no Lease gpu/gpu-topology-place"),
        ({}, False, "Lease gpu/gpu-topology-place names no holder"),
        ({"spec": {"holderIdentity": ""}}, False, "Lease gpu/gpu-topology-place names no holder"),
        (
            {
                "spec": {
                    "holderIdentity": "no planner",
                    "renewTime": "2026-11-22T12:00:00Z",
                    "leaseDurationSeconds": 300,
                }
            },
            False,
            "Lease gpu/gpu-topology-place pauses the planner",
        ),
        ({"spec": {"holderIdentity": "a"}}, False, "Lease gpu/gpu-topology-place does not say when it was renewed"),
        ({"spec": []}, False, "Lease gpu/gpu-topology-place names no holder"),
    ],
)
def test_a_lease_that_nobody_holds_is_that_of_no_planner(lease: Any, alive: bool, words: str) -> None:
    signs = planner_signs(lease, "gpu/gpu-topology-place", at=AT)
    assert (signs.is_alive, signs.said) == (alive, words)


@pytest.mark.parametrize(("renewed", "alive"), [("12:04:55", True), ("12:04:00", True), ("12:03:00", False)])
def test_a_planner_that_renews_its_lease_is_alive_even_if_clocks_differ_a_little(renewed: str, alive: bool) -> None:
    spec = {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": f"2026-11-22T{renewed}.000000Z"}
    assert planner_signs({"spec": spec}, "gpu/gpu-topology-place", at=AT).is_alive is alive


def test_a_long_condition_is_cut_and_escaped() -> None:
    one = found(waits("NoFreeCards", "GT621: \x1b[2J" + 30_000 * "x"))
    assert len(one.evidence) < 1200
    assert "\x1b" not in one.evidence


@pytest.mark.parametrize("created", ["yesterday", "2026-11-22T12:00:00", ""])
def test_a_time_that_is_none_is_left_out(created: str) -> None:
    manifest = waits("NoFreeCards", "GT621: no node is free")
    manifest["metadata"]["creationTimestamp"] = created
    assert found(manifest).evidence == f"the pod waits behind the scheduling gate {GATE}: no node is free"


def test_of_a_pod_that_went_on_without_a_choice_nothing_is_demanded() -> None:
    released = past_the_gate(prepared(), "released")
    told_why = conditioned(released, "gpu.topology/Placed", "False", "Released", "GT628: no node had 2 free cards")
    one = found(on(told_why, NODE, list(PAIR)))
    assert one.verdict == "not-needed"
    assert one.evidence == "the pod had its cards chosen by the scheduler: no node had 2 free cards"
