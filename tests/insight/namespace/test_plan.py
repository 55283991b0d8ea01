"""What leads a namespace to what is wanted: which labels and annotations, in which order, and the kubectl lines."""

import subprocess

import pytest

from tests.judge import policy
from webhook.decisions.options import Options
from webhook.insight.namespace.plan import (
    Change,
    Field,
    changed,
    changes,
    check_value,
    commands,
    meaning,
    settings,
    shell_word,
    without_ours,
)
from webhook.objects.pod import Namespace
from webhook.words.errors import FormatError
from webhook.words.printable import printable

DEFAULTS = policy().defaults
NEW = Namespace("team-a")
OPTED_IN = Namespace("team-a", {"gpu.topology/injection": "enabled"})


def planned(now: Namespace, *, unset: tuple[str, ...] = (), **values: str) -> Namespace:
    return changed(now, {name.replace("_", "-"): text for name, text in values.items()}, unset, DEFAULTS)


def made(now: Namespace, *, unset: tuple[str, ...] = (), **values: str) -> list[tuple[str, str | None, str | None]]:
    return keys(changes(now, planned(now, unset=unset, **values)))


def keys(found: list[Change]) -> list[tuple[str, str | None, str | None]]:
    """The changes, each as its key without the prefix, before and after."""
    return [(change.key.removeprefix("gpu.topology/"), change.before, change.after) for change in found]


def test_to_opt_in_is_one_label_and_the_way_back_removes_it() -> None:
    then = planned(NEW)
    assert keys(changes(NEW, then)) == [("injection", None, "enabled")]
    assert keys(changes(then, NEW)) == [("injection", "enabled", None)]
    assert then.injection_enabled
    assert made(OPTED_IN) == []


def test_node_peers_brings_its_permissions_before_the_opt_in() -> None:
    assert made(NEW, profile="node-peers") == [
        ("profile", None, "node-peers"),
        ("allow-host-ipc", None, "true"),
        ("allow-host-pid", None, "true"),
        ("allow-node-gpus", None, "true"),
        ("injection", None, "enabled"),
    ]


def test_isolated_node_peers_bring_no_host_namespace_and_keep_the_pod_security_level() -> None:
    now = Namespace("team-a", {**OPTED_IN.labels, "pod-security.kubernetes.io/enforce": "baseline"})
    assert sorted(made(now, profile="node-peers", isolation="isolated"), key=str) == [
        ("allow-node-gpus", None, "true"),
        ("isolation", None, "isolated"),
        ("profile", None, "node-peers"),
    ]
    asked = made(now, profile="node-peers", isolation="isolated", host_ipc="true")
    assert {("allow-host-ipc", None, "true"), ("pod-security.kubernetes.io/enforce", "baseline", "privileged")} <= {
        *asked
    }


def test_a_permission_that_is_there_is_not_given_again() -> None:
    now = Namespace("team-a", {**OPTED_IN.labels, "gpu.topology/allow-host-ipc": "true"})
    given = [key for key, _, _ in made(now, profile="node-peers")]
    assert given == ["profile", "allow-host-pid", "allow-node-gpus"]
    spoiled = Namespace("team-a", {**OPTED_IN.labels, "gpu.topology/allow-host-ipc": "yes"})
    assert ("allow-host-ipc", "yes", "true") in made(spoiled, profile="node-peers")


def test_a_host_namespace_that_is_asked_for_needs_its_permission_and_one_that_is_withheld_none() -> None:
    assert made(OPTED_IN, host_network="true") == [
        ("host-network", None, "true"),
        ("allow-host-network", None, "true"),
    ]
    assert made(OPTED_IN, host_network="false") == [("host-network", None, "false")]


@pytest.mark.parametrize("level", ["restricted", "baseline"])
def test_another_pod_security_level_becomes_privileged_where_host_namespaces_are_needed(level: str) -> None:
    now = Namespace("team-a", {**OPTED_IN.labels, "pod-security.kubernetes.io/enforce": level})
    changed = made(now, profile="node-peers")
    assert ("pod-security.kubernetes.io/enforce", level, "privileged") in changed
    assert made(now, profile="pod-peers") == [("profile", None, "pod-peers")]


def test_to_opt_out_comes_first() -> None:
    now = Namespace("team-a", OPTED_IN.labels, {"gpu.topology/policy": "nvlink"})
    assert made(now, unset=("policy", "injection")) == [("injection", "enabled", None), ("policy", "nvlink", None)]


def test_another_value_is_an_overwritten_one_and_the_same_value_no_change() -> None:
    now = Namespace("team-a", OPTED_IN.labels, {"gpu.topology/shm-size": "8Gi"})
    assert made(now, shm_size="16Gi") == [("shm-size", "8Gi", "16Gi")]
    assert made(now, shm_size="8Gi") == []


def test_the_way_out_removes_all_of_ours_the_opt_in_first() -> None:
    labels = {"gpu.topology/injection": "enabled", "gpu.topology/allow-host-ipc": "true", "team": "a"}
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    now = Namespace("team-a", labels | level, {"gpu.topology/profile": "pod-peers", "owner": "me"})
    found = without_ours(now)
    assert keys(changes(now, found)) == [
        ("injection", "enabled", None),
        ("allow-host-ipc", "true", None),
        ("profile", "pod-peers", None),
    ]
    assert found == Namespace("team-a", {"team": "a", **level}, {"owner": "me"})
    assert without_ours(Namespace("team-a", {"team": "a"})) == Namespace("team-a", {"team": "a"})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("min-bandwidth", "fast", r"^min-bandwidth: expected a number of GB/s .* found \"fast\"$"),
        ("env.CUDA_VISIBLE_DEVICES", "0", r"expected a variable that no profile sets"),
        ("allow-host-ipc", "yes", r'^allow-host-ipc: expected "true" or "false", found "yes"$'),
        ("pofile", "exclusive", r"^pofile: expected an option such as profile"),
    ],
)
def test_a_value_that_does_not_parse_is_refused_with_the_option(name: str, text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        check_value(name, text, source=name)


def test_an_unreadable_value_that_stays_is_refused_and_one_that_is_replaced_or_removed_is_not() -> None:
    now = Namespace("team-a", OPTED_IN.labels, {"gpu.topology/profile": "node"})
    with pytest.raises(FormatError, match=r"annotation gpu\.topology/profile on namespace team-a"):
        planned(now, shm_size="8Gi")
    assert made(now, profile="exclusive") == [("profile", "node", "exclusive")]
    assert made(now, unset=("profile",)) == [("profile", "node", None)]


def test_defaults_of_the_configuration_need_permissions_too() -> None:
    found = changed(NEW, {}, (), Options(host_ipc=True))
    assert keys(changes(NEW, found)) == [("allow-host-ipc", None, "true"), ("injection", None, "enabled")]


def test_each_label_and_annotation_of_ours_is_told_with_what_it_does() -> None:
    labels = {"gpu.topology/injection": "yes", "gpu.topology/allow-node-gpus": "true", "team": "a"}
    options = {"gpu.topology/profile": "pod-peers", "gpu.topology/pofile": "x", "gpu.topology/policy": "nvlink"}
    now = Namespace("team-a", labels, options | {"owner": "me"})
    assert [(key, meaning(key, value)[:20]) for key, value in settings(now)] == [
        ("gpu.topology/allow-node-gpus", "its pods may see eve"),
        ("gpu.topology/injection", "no effect"),
        ("gpu.topology/pofile", "no effect"),
        ("gpu.topology/policy", ""),
        ("gpu.topology/profile", "the containers of a "),
    ]


PROFILE = Change(Field.ANNOTATION, "gpu.topology/profile", None, "pod-peers")
INJECTION = Change(Field.LABEL, "gpu.topology/injection", None, "enabled")


def lines(*made: Change, cluster: tuple[str, ...] = ()) -> list[str]:
    return list(commands("team-a", made, cluster))


def test_a_removed_key_ends_with_a_dash_and_an_overwritten_one_needs_its_option() -> None:
    removed = Change(Field.LABEL, "gpu.topology/injection", "enabled", None)
    other = Change(Field.LABEL, "gpu.topology/allow-host-ipc", "false", "true")
    assert lines(removed) == ["kubectl label namespace team-a gpu.topology/injection-"]
    assert lines(removed, other) == [
        "kubectl label namespace team-a gpu.topology/injection- gpu.topology/allow-host-ipc=true --overwrite"
    ]


def test_the_cluster_of_the_command_is_that_of_kubectl() -> None:
    named = lines(INJECTION, cluster=("--kubeconfig", "my config", "--context", "a"))
    assert named == [
        "kubectl --kubeconfig 'my config' --context a label namespace team-a gpu.topology/injection=enabled"
    ]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        "two words",
        "$(touch /tmp/x) `id` ${HOME} !!",
        "it's",
        '"; rm -rf ~ #',
        "a\nb\tc",
        "\x1b[31mred\x07 it's \\ \x7f",
        "Größe 大",
        "bidi \u202e end \u200b",
        "-",
        "=a=b",
    ],
)
def test_a_shell_reads_a_hostile_value_back(value: str) -> None:
    word = shell_word(value)
    assert printable(word) == word
    done = subprocess.run(
        ["/bin/bash", "-c", f"printf %s {word}"], capture_output=True, check=True, env={"LC_ALL": "C"}
    )
    assert done.stdout.decode() == value


def test_who_observes_needs_no_permission() -> None:
    asked = Namespace("team-a", {}, {"gpu.topology/host-ipc": "true"})
    assert made(asked, profile="observe") == [
        ("profile", None, "observe"),
        ("injection", None, "enabled"),
    ]


@pytest.mark.parametrize(("name", "text"), [("profile", "pod-peers"), ("env.A", "x"), ("allow-host-ipc", "true")])
def test_a_value_of_an_option_or_a_permission_is_taken(name: str, text: str) -> None:
    check_value(name, text, source=name)
