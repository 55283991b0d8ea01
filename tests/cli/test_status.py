"""``gpu-topology status`` on files: what it prints, and how it ends."""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest
from rich.console import Console

from tests.cli.command import gpu_topology
from tests.cli.terminal import ESCAPE, on_terminal
from tests.cli.test_analyze import write
from tests.insight.analyze.clusters import Cluster, h20, running
from tests.insight.overview.scenes import (
    claims,
    cordoned,
    fault,
    mig,
    pinned,
    ran,
    seen,
    without_nodes,
)
from webhook.cli.status.picture import picture
from webhook.cli.status.watch import LEAST_SECONDS, heading, readings
from webhook.insight.overview.limit import limited
from webhook.insight.overview.model import Overview
from webhook.words.errors import GpuTopologyError

NARROW, WIDE = 80, 160


def drawn(cluster: Cluster, width: int = NARROW, *, every: bool = False) -> str:
    """The picture as plain text, without blanks at the ends of lines."""
    console = Console(width=width, color_system=None, highlight=False, markup=False)
    with console.capture() as capture:
        for part in picture(seen(cluster), width=width, every=every):
            console.print(part)
    return "\n".join(line.rstrip() for line in capture.get().split("\n"))


def test_a_healthy_cluster_in_80_columns() -> None:
    assert drawn(Cluster()) == dedent(
        """\
        paired  2 of 4 free, NVLink healthy, best 240 GB/s
          0,1[a a ] 2,3[. . ]
        switched  4 of 8 free, NVLink healthy, best 370.8 GB/s
          0-7[a a a a . . . . ]

          POD          NODE     CARDS NVLINK  PROFILE   LINK GB/S           TRUE CODE
        a team-a/pair  paired   0,1   unknown exclusive NV12 240 of 240     -    GT362
        a team-a/train switched 0-3   unknown exclusive NV18 370.8 of 370.8 -    GT362

        2 nodes, 12 cards (6 held, 6 free); 2 pods with GPUs, 0 waiting, 0 slower than
        others on its node
        NVLink of 2 pods with GPUs: unknown 2
        findings: none
        as of 2026-11-22T12:00:00Z

        [ ] every pair has NVLink   a, b, ... the pod with that letter has the card
        . free
        """
    )


def test_a_healthy_cluster_in_160_columns() -> None:
    lines = drawn(Cluster(), WIDE).splitlines()
    assert lines[:3] == [
        "NODE      CARDS                  FREE    NVLINK   BEST GB/S",
        "paired    0,1[a a ] 2,3[. . ]    2 of 4  healthy  240        NVIDIA A100 80GB PCIe",
        "switched  0-7[a a a a . . . . ]  4 of 8  healthy  370.8      NVIDIA H20",
    ]


def test_nodes_that_may_not_be_listed_are_not_said_to_be_missing() -> None:
    cluster = Cluster()
    without_nodes(cluster)
    lines = drawn(cluster, WIDE).splitlines()
    role = "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you"
    assert (
        lines[0] == "GT865: nodes could not be listed, so no node and no card is shown: list nodes: you may not (403)"
    )
    assert [line.split()[:3] for line in lines[3:5]] == [
        ["team-a/pair", "paired", "-"],
        ["team-a/train", "switched", "-"],
    ]
    assert lines[6] == "nodes and cards not known; 2 pods with GPUs, 0 waiting, 0 slower than others on its node"
    assert lines[7] == "NVLink of 2 pods with GPUs: unknown 2"
    assert lines[9:] == [
        "as of 2026-11-22T12:00:00Z",
        "not read: nodes: list nodes: you may not (403)",
        f"GT864: your rights do not allow all that was to be read. {role}",
    ]


def test_a_cluster_without_gpus_says_that_and_names_no_role() -> None:
    cluster = Cluster()
    cluster.objects.clear()
    said = drawn(cluster)
    assert said.startswith("There is no node with GPUs.\n")
    assert "0 nodes, 0 cards; 0 pods with GPUs" in said
    assert "ClusterRole" not in said


def test_a_node_that_is_asked_for_and_may_not_be_listed_is_not_said_to_be_missing() -> None:
    cluster = Cluster()
    with pytest.raises(GpuTopologyError, match=r"^there is no node other with GPUs$"):
        limited(seen(cluster), namespace=None, nodes={"other"})
    without_nodes(cluster)
    with pytest.raises(
        GpuTopologyError, match=r"^GT865: nodes could not be listed.*bind the ClusterRole gpu-topology-r"
    ):
        limited(seen(cluster), namespace=None, nodes={"paired"})


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (fault("slice on a pair"), "0,1[a a ] 2,3[1 . ]"),
        (fault("links down"), "0-7[. . . . . .!. . ]"),
        (fault("lost GPU"), "0-5,7[. . . . . . . ] 6(.x)"),
        (fault("silent agent"), "0-7<.?.?.?.?.?.?.?.?>"),
        (fault("worse cards"), "0-7{a . . . . a . . }"),
        (cordoned, "0,1[a a ] 2,3[. .-]"),
        (mig, "0,1[. . ] 2,3(. ./)"),
        (pinned, "0,1[a a ] 2,3[B B ]"),
        (claims, "0,1[. . ] 2,3[a a ]"),
    ],
    ids=["shared", "links down", "lost", "silent", "cube", "cordoned", "MIG", "chosen", "claims"],
)
def test_cells_say_who_has_a_card_and_how_it_is(make: Callable[[Cluster], object], expected: str) -> None:
    cluster = Cluster()
    assert expected not in drawn(cluster)
    make(cluster)
    assert f"  {expected}\n" in drawn(cluster)


@pytest.mark.parametrize(
    ("make", "clause"),
    [
        (fault("slice on a pair"), "1, 2, ... so many pods share it"),
        (fault("links down"), "a! NVLinks down"),
        (fault("lost GPU"), "ax cannot be used"),
        (cordoned, "a- HAMi was told to leave it alone"),
        (mig, "1/ in MIG mode"),
        (pinned, "A, B, ... the planner chose the card for that pod"),
        (fault("worse cards"), "{ } some pairs have NVLink"),
    ],
)
def test_the_legend_has_what_is_used_and_nothing_else(make: Callable[[Cluster], object], clause: str) -> None:
    cluster = Cluster()
    assert clause not in drawn(cluster)
    make(cluster)
    assert clause in drawn(cluster)


def test_waiting_pods_stand_by_themselves_with_what_they_wait_for() -> None:
    cluster = Cluster()
    fault("waits for long")(cluster)
    text = drawn(cluster, WIDE)
    assert "POD             ASKS    WAITS FOR\nteam-a/patient  8 GPUs  the planner (gate gpu.topology/place)\n" in text
    assert "1 waiting" in text


@pytest.mark.parametrize("width", [NARROW, WIDE])
def test_a_waiting_pod_with_cards_stands_with_its_letter_and_they_with_their_node(width: int) -> None:
    cluster = Cluster()
    pinned(cluster)
    fault("waits for long")(cluster)
    lines = [line.split() for line in drawn(cluster, width).splitlines()]
    assert ["POD", "NODE", "CARDS", "ASKS", "WAITS", "FOR"] in lines
    assert any(line[:4] == ["b", "team-a/pinned", "paired", "2,3"] for line in lines)
    assert any(line[:3] == ["team-a/patient", "-", "-"] for line in lines)
    assert "2,3[B B ]" in drawn(cluster, width)


def test_what_the_program_in_a_pod_found_is_said() -> None:
    cluster = Cluster()
    ran(cluster, "pair", state={"terminated": {"exitCode": 12, "message": "GPU-1 is not\x1b[2J there"}})
    ran(cluster, "train", state={"terminated": {"exitCode": 0}})
    text = drawn(cluster)
    assert "a team-a/pair  paired   0,1   no     exclusive NV12 240 of 240     NO   GT367\n" in text
    assert "a team-a/train switched 0-3   yes    exclusive NV18 370.8 of 370.8 yes  -\n" in text
    assert "NVLink of 2 pods with GPUs: yes 1, no 1\n" in text
    said = " ".join(text.split())
    assert (
        "team-a/pair: the pod was stopped: container gpu-topology-remap ended with exit code 12: GPU-1 is "
        r"not\x1b[2J there (GT367). For exit code 12: see whether a GPU of the node was replaced" in said
    )


def test_hundreds_of_nodes_are_summed_up_unless_they_lose_something() -> None:
    cluster = Cluster()
    for number in range(40):
        cluster.add_node(h20(f"node{number:02}"))
        cluster.add(running(f"pod{number:02}", f"node{number:02}", 0, 1))
    fault("links down")(cluster)
    text = drawn(cluster)
    assert "degraded  8 of 8 free" in text
    assert "\nnode07 " not in text
    assert "and 42 more nodes with nothing wrong (41 with NVIDIA H20, 1 with NVIDIA A100" in text
    assert "pod07" in text, "there are few of them"
    assert "\nnode07 " in drawn(cluster, every=True)


def test_hundreds_of_pods_are_summed_up_unless_they_lose_something() -> None:
    cluster = Cluster()
    for number in range(60):
        cluster.add(running(f"pod{number:02}", "switched", 0, 1))
    fault("worse cards")(cluster)
    text = drawn(cluster)
    assert "team-a/unlucky" in text
    assert "pod07" not in text
    assert "and 62 more pods that lose nothing. --all shows them" in text
    assert "pod07" in drawn(cluster, every=True)


def test_no_line_is_wider_than_the_terminal() -> None:
    cluster = Cluster()
    for name in ("worse cards", "lost GPU", "waits for long", "unreadable topology", "many of a Deployment"):
        fault(name)(cluster)
    cluster.add_node(h20("a-node-with-a-name-that-is-as-long-as-names-of-nodes-in-clouds-are.example.com"))
    for width in (NARROW, 100, 120, WIDE, 200):
        assert max(map(len, drawn(cluster, width).splitlines())) <= width


def test_names_from_the_cluster_are_escaped() -> None:
    cluster = Cluster()
    for name in ("evil\x1b[2J", "right\u202eleft"):
        hostile = running("x", "switched", 4, 5)
        hostile["metadata"]["name"] = name
        cluster.add(hostile)
    text = drawn(cluster, WIDE)
    assert r"team-a/evil\x1b[2J" in text
    assert r"team-a/right\u202eleft" in text
    assert ESCAPE not in text
    assert "\u202e" not in text


def test_json_has_the_names_of_the_cluster_and_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    cluster, name = Cluster(), "evil\x9b2J\x1b[2J\u202e\u2028\x7fé"
    hostile = running("x", "switched", 4, 5)
    hostile["metadata"]["namespace"] = name
    cluster.add(hostile)
    done = gpu_topology("status", "-o", "json", "-f", write(tmp_path / "c.json", cluster))
    assert name in [each["namespace"] for each in json.loads(done.out)["pods"]]
    assert all(line.isprintable() for line in done.out.split("\n"))
    assert "é" in done.out, "letters of any language stay"


def test_a_terminal_gets_colours_unless_it_wants_none(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", Cluster())
    code, text = on_terminal("status", "-f", path)
    assert code == 0
    assert ESCAPE in text
    code, text = on_terminal("status", "-f", path, NO_COLOR="1")
    assert code == 0
    assert ESCAPE not in text
    assert "0,1[a a ] 2,3[. . ]" in text


def test_nodes_and_namespaces_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "c.json", Cluster())
    done = gpu_topology("status", "paired", "-f", path)
    assert done.code == 0
    assert "team-a/pair " in done.out
    assert "switched" not in done.out
    done = gpu_topology("status", "-f", path, "-n", "no-such")
    assert (done.code, done.out) == (2, "")
    assert "there is no namespace no-such" in done.err
    done = gpu_topology("status", "no-such", "-f", path)
    assert (done.code, done.out) == (2, "")
    assert "there is no node no-such with GPUs" in done.err


def test_pods_of_other_namespaces_are_left_out_and_still_hold_their_cards() -> None:
    found = limited(seen(Cluster()), namespace="plain", nodes=())
    assert found.pods == ()
    assert found.nodes[0].cards[0].holders == ("team-a/pair",)


def test_the_holders_of_cards_whose_pods_are_not_listed_are_named() -> None:
    cluster = Cluster()
    fault("slice on a pair")(cluster)
    assert "held by" not in drawn(cluster)
    console = Console(width=NARROW, color_system=None, highlight=False, markup=False)
    with console.capture() as capture:
        for part in picture(limited(seen(cluster), namespace="plain", nodes=()), width=NARROW):
            console.print(part)
    text = capture.get()
    assert "paired: cards are held by team-a/pair (a) and team-a/rerank\n" in text
    assert "switched: cards are held by team-a/train (a)\n" in text


class Flaky:
    """A cluster that is reached only sometimes."""

    def __init__(self, *answers: bool) -> None:
        self._answers: Iterator[bool] = iter(answers)
        self.number = itertools.count()

    def read(self) -> Overview:
        if not next(self._answers):
            raise GpuTopologyError("it cannot be reached")
        return Overview(at=f"time {next(self.number)}")


def test_watching_keeps_the_last_picture_while_the_cluster_cannot_be_reached() -> None:
    slept: list[float] = []
    found = readings(Flaky(True, False, True).read, slept.append)
    first, second, third = (next(found) for _ in range(3))
    assert (first.found.at, first.problem) == ("time 0", "")
    assert (second.found.at, second.problem) == ("time 0", "it cannot be reached")
    assert (third.found.at, third.problem) == ("time 1", "")
    assert min(slept) >= LEAST_SECONDS
    assert heading(second).plain.startswith("as of time 0, read again after 2 s; Ctrl-C ends\nnot reached at 20")


def test_watching_ends_if_the_cluster_was_never_reached() -> None:
    with pytest.raises(GpuTopologyError, match="cannot be reached"):
        next(readings(Flaky(False).read, lambda _: None))
