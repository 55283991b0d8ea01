"""The lines of kubectl: what they say, and that a shell reads hostile values back as they are."""

import subprocess

import pytest

from webhook.insight.namespace.kubectl import lines, shell_word
from webhook.insight.namespace.plan import Change, Field
from webhook.words.printable import printable

PROFILE = Change(Field.ANNOTATION, "gpu.topology/profile", None, "pod-peers")
INJECTION = Change(Field.LABEL, "gpu.topology/injection", None, "enabled")


def commands(*changes: Change, cluster: tuple[str, ...] = ()) -> list[str]:
    return [line.command for line in lines("team-a", changes, cluster)]


def test_annotations_and_labels_are_a_line_each_in_their_order() -> None:
    assert commands(PROFILE, INJECTION) == [
        "kubectl annotate namespace team-a gpu.topology/profile=pod-peers",
        "kubectl label namespace team-a gpu.topology/injection=enabled",
    ]
    assert commands(INJECTION, PROFILE)[0].startswith("kubectl label")


def test_a_removed_key_ends_with_a_dash_and_an_overwritten_one_needs_its_option() -> None:
    removed = Change(Field.LABEL, "gpu.topology/injection", "enabled", None)
    other = Change(Field.LABEL, "gpu.topology/allow-host-ipc", "false", "true")
    assert commands(removed) == ["kubectl label namespace team-a gpu.topology/injection-"]
    assert commands(removed, other) == [
        "kubectl label namespace team-a gpu.topology/injection- gpu.topology/allow-host-ipc=true --overwrite"
    ]


def test_the_cluster_of_the_command_is_that_of_kubectl() -> None:
    named = commands(INJECTION, cluster=("--kubeconfig", "my config", "--context", "a"))
    assert named == [
        "kubectl --kubeconfig 'my config' --context a label namespace team-a gpu.topology/injection=enabled"
    ]


def test_nothing_to_change_is_no_line() -> None:
    assert commands() == []


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
