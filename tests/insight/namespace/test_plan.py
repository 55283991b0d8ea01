"""What leads a namespace to what is wanted: which labels and annotations, in which order, and the way back."""

import pytest

from tests.judge import policy
from webhook.decisions.options import EXPECTED_VALUES, OPTION_NAMES, SWITCHES, Options
from webhook.insight.namespace.meaning import OPTIONS, meaning_of_annotation, meaning_of_label
from webhook.insight.namespace.plan import Change, Field, Plan, Wanted, plan, settings, way_out
from webhook.objects.pod import Namespace
from webhook.words.errors import FormatError

DEFAULTS = policy().defaults
NEW = Namespace("team-a")
OPTED_IN = Namespace("team-a", {"gpu.topology/injection": "enabled"})


def planned(now: Namespace, *allowed: str, unset: tuple[str, ...] = (), **options: str) -> Plan:
    wanted = Wanted({name.replace("_", "-"): text for name, text in options.items()}, allowed, unset)
    return plan(now, wanted, DEFAULTS)


def keys(changes: tuple[Change, ...]) -> list[tuple[str, str | None, str | None]]:
    """The changes, each as its key without the prefix, before and after."""
    return [(change.key.removeprefix("gpu.topology/"), change.before, change.after) for change in changes]


def test_to_opt_in_is_one_label_and_the_way_back_removes_it() -> None:
    found = planned(NEW)
    assert keys(found.changes) == [("injection", None, "enabled")]
    assert keys(found.way_back) == [("injection", "enabled", None)]
    assert found.then.injection_enabled
    assert planned(OPTED_IN).changes == ()


def test_a_profile_without_host_namespaces_needs_no_permission() -> None:
    assert keys(planned(NEW, profile="pod-peers").changes) == [
        ("profile", None, "pod-peers"),
        ("injection", None, "enabled"),
    ]


def test_node_peers_brings_its_permissions_before_the_opt_in() -> None:
    assert keys(planned(NEW, profile="node-peers").changes) == [
        ("profile", None, "node-peers"),
        ("allow-host-ipc", None, "true"),
        ("allow-host-pid", None, "true"),
        ("allow-node-gpus", None, "true"),
        ("injection", None, "enabled"),
    ]


def test_isolated_node_peers_bring_no_host_namespace_and_keep_the_pod_security_level() -> None:
    now = Namespace("team-a", {**OPTED_IN.labels, "pod-security.kubernetes.io/enforce": "baseline"})
    assert sorted(keys(planned(now, profile="node-peers", isolation="isolated").changes), key=str) == [
        ("allow-node-gpus", None, "true"),
        ("isolation", None, "isolated"),
        ("profile", None, "node-peers"),
    ]
    asked = keys(planned(now, profile="node-peers", isolation="isolated", host_ipc="true").changes)
    assert {("allow-host-ipc", None, "true"), ("pod-security.kubernetes.io/enforce", "baseline", "privileged")} <= {
        *asked
    }


def test_a_permission_that_is_there_is_not_given_again() -> None:
    now = Namespace("team-a", {**OPTED_IN.labels, "gpu.topology/allow-host-ipc": "true"})
    given = [key for key, _, _ in keys(planned(now, profile="node-peers").changes)]
    assert given == ["profile", "allow-host-pid", "allow-node-gpus"]
    spoiled = Namespace("team-a", {**OPTED_IN.labels, "gpu.topology/allow-host-ipc": "yes"})
    assert ("allow-host-ipc", "yes", "true") in keys(planned(spoiled, profile="node-peers").changes)


def test_a_host_namespace_that_is_asked_for_needs_its_permission_and_one_that_is_withheld_none() -> None:
    assert keys(planned(OPTED_IN, host_network="true").changes) == [
        ("host-network", None, "true"),
        ("allow-host-network", None, "true"),
    ]
    assert keys(planned(OPTED_IN, host_network="false").changes) == [("host-network", None, "false")]


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_another_pod_security_level_becomes_privileged_where_host_namespaces_are_needed(level: str) -> None:
    now = Namespace("team-a", {**OPTED_IN.labels, "pod-security.kubernetes.io/enforce": level})
    changed = keys(planned(now, profile="node-peers").changes)
    assert ("pod-security.kubernetes.io/enforce", level, "privileged") in changed
    assert keys(planned(now, profile="pod-peers").changes) == [("profile", None, "pod-peers")]


def test_without_a_pod_security_level_none_is_set() -> None:
    assert "pod-security.kubernetes.io/enforce" not in planned(NEW, profile="node-peers").then.labels


def test_who_observes_needs_no_permission() -> None:
    asked = Namespace("team-a", {}, {"gpu.topology/host-ipc": "true"})
    assert keys(planned(asked, profile="observe").changes) == [
        ("profile", None, "observe"),
        ("injection", None, "enabled"),
    ]


def test_a_permission_can_be_given_and_taken_alone() -> None:
    given = planned(OPTED_IN, "allow-node-gpus")
    assert keys(given.changes) == [("allow-node-gpus", None, "true")]
    assert keys(planned(given.then, unset=("allow-node-gpus",)).changes) == [("allow-node-gpus", "true", None)]


def test_an_option_is_removed_and_the_namespace_opted_out() -> None:
    now = Namespace("team-a", OPTED_IN.labels, {"gpu.topology/policy": "nvlink"})
    assert keys(planned(now, unset=("policy", "injection")).changes) == [
        ("policy", "nvlink", None),
        ("injection", "enabled", None),
    ]


def test_another_value_is_an_overwritten_one_and_the_same_value_no_change() -> None:
    now = Namespace("team-a", OPTED_IN.labels, {"gpu.topology/shm-size": "8Gi"})
    assert keys(planned(now, shm_size="16Gi").changes) == [("shm-size", "8Gi", "16Gi")]
    assert keys(planned(now, shm_size="16Gi").way_back) == [("shm-size", "16Gi", "8Gi")]
    assert planned(now, shm_size="8Gi").changes == ()


def test_foreign_keys_stay() -> None:
    now = Namespace("team-a", {"team": "a"}, {"owner": "me"})
    found = planned(now, require_nvlink="true").then
    assert found.labels == {"team": "a", "gpu.topology/injection": "enabled"}
    assert found.annotations == {"owner": "me", "gpu.topology/require-nvlink": "true"}


def test_the_way_out_removes_all_of_ours_the_opt_in_first() -> None:
    labels = {"gpu.topology/injection": "enabled", "gpu.topology/allow-host-ipc": "true", "team": "a"}
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    now = Namespace("team-a", labels | level, {"gpu.topology/profile": "pod-peers", "owner": "me"})
    found = way_out(now)
    assert keys(found.changes) == [
        ("injection", "enabled", None),
        ("allow-host-ipc", "true", None),
        ("profile", "pod-peers", None),
    ]
    assert found.then == Namespace("team-a", {"team": "a", **level}, {"owner": "me"})
    assert way_out(Namespace("team-a", {"team": "a"})).changes == ()


def test_a_value_that_does_not_parse_is_refused_with_the_option() -> None:
    with pytest.raises(FormatError, match=r"^option --min-bandwidth: expected a number of GB/s .* found \"fast\"$"):
        planned(NEW, min_bandwidth="fast")
    with pytest.raises(FormatError, match=r"^option --env: expected a variable that no profile sets"):
        plan(NEW, Wanted({"env.CUDA_VISIBLE_DEVICES": "0"}), DEFAULTS)


def test_an_unreadable_value_that_stays_is_refused_and_one_that_is_replaced_or_removed_is_not() -> None:
    now = Namespace("team-a", OPTED_IN.labels, {"gpu.topology/profile": "node"})
    with pytest.raises(FormatError, match=r"annotation gpu\.topology/profile on namespace team-a"):
        planned(now, shm_size="8Gi")
    assert keys(planned(now, profile="exclusive").changes) == [("profile", "node", "exclusive")]
    assert keys(planned(now, unset=("profile",)).changes) == [("profile", "node", None)]


def test_defaults_of_the_configuration_need_permissions_too() -> None:
    found = plan(NEW, Wanted(), Options(host_ipc=True))
    assert keys(found.changes) == [("allow-host-ipc", None, "true"), ("injection", None, "enabled")]


def test_each_label_and_annotation_of_ours_is_told_with_what_it_does() -> None:
    labels = {"gpu.topology/injection": "yes", "gpu.topology/allow-node-gpus": "true", "team": "a"}
    now = Namespace("team-a", labels, {"gpu.topology/profile": "pod-peers", "gpu.topology/pofile": "x", "owner": "me"})
    assert [(each.field, each.key, bool(each.meaning)) for each in settings(now)] == [
        (Field.LABEL, "gpu.topology/allow-node-gpus", True),
        (Field.LABEL, "gpu.topology/injection", False),
        (Field.ANNOTATION, "gpu.topology/profile", True),
        (Field.ANNOTATION, "gpu.topology/pofile", False),
    ]


def test_every_option_has_a_meaning_and_every_choice_of_profile_its_own() -> None:
    assert tuple(OPTIONS) == OPTION_NAMES
    profiles = {meaning_of_annotation("gpu.topology/profile", each) for each in ("exclusive", "pod-peers", "observe")}
    assert len(profiles) == 3
    assert OPTIONS["profile"] not in profiles


def test_a_label_means_something_only_with_the_value_that_turns_it_on() -> None:
    assert meaning_of_label("gpu.topology/allow-host-ipc", "true").endswith("(hostIPC)")
    assert meaning_of_label("gpu.topology/allow-host-ipc", "false") == ""
    assert meaning_of_label("hami.io/webhook", "ignore") != meaning_of_label("hami.io/webhook", "")


def test_switches_are_the_options_that_are_true_or_false() -> None:
    assert {name for name, expected in EXPECTED_VALUES.items() if expected == '"true" or "false"'} == SWITCHES
