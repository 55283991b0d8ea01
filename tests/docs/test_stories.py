"""What stands below a command of a story is what it prints."""

from pathlib import Path

import pytest

from tests.docs.stories.pages import ENGLISH, commands, printed, written
from tests.docs.test_docs import text

_PAGE = "```console\n$ gpu-topology version | sed s/.*/seen/ # examples/\n{answer}\n```\n"


@pytest.mark.parametrize("path", ENGLISH, ids=lambda path: path.stem)
def test_a_story_shows_what_its_commands_print(path: Path) -> None:
    page = path.read_text(encoding="utf-8")
    assert page == written(page), "python -m tests.docs.stories renews it"


def test_another_output_would_be_found() -> None:
    assert written(_PAGE.format(answer="guessed")) == _PAGE.format(answer="seen")


def test_a_block_for_a_cluster_stays_as_it_is() -> None:
    page = "```console\n$ kubectl apply -f examples/verify/peers.yaml\n$ gpu-topology explain train\nNVLink: yes\n```\n"
    assert commands(page) == []
    assert written(page) == page


def test_what_goes_to_standard_error_is_shown_first() -> None:
    refused = printed("gpu-topology inject -f examples/workloads/11-refused.yaml --state examples/state | echo ended")
    first, last = refused.splitlines()
    assert first.startswith("refused: Pod prefill-without-permission: GT124:")
    assert last == "ended"


def test_the_pods_of_the_proof_are_prepared_as_peers() -> None:
    command = "gpu-topology inject -f examples/verify/peers.yaml --state examples/state -o diff"
    added = printed(f"{command} | grep -oE '^[+] +(hostIPC|hostPID|topologyKey): .*' | tr -d ' ' | sort")
    assert (
        added.splitlines()
        == ["+hostIPC:true"] * 2 + ["+hostPID:true"] * 2 + ["+topologyKey:kubernetes.io/hostname"] * 2
    )
    assert text("docs/stories/prefill-decode.md").count("examples/verify/peers.yaml") == 1
