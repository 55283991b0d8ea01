"""What the probe of CUDA IPC concludes of the trials of ``verify``."""

from typing import Any

import pytest

from tests.gpu.probes.ipc import refuted

ISOLATED = "no handle of CUDA IPC works with different PIDs, so isolated peers reach nothing by it"
NOTHING = "no kind of handle carries memory from one process to the other"


def trial(verdict: str, *, kind: str = "cuda-ipc", equal: bool = False) -> dict[str, Any]:
    return {"kind": kind, "pidsEqual": equal, "verdict": verdict}


EQUAL_ONLY = (trial("works", equal=True), trial("refused"))
DIFFERENT_ONLY = (trial("refused", equal=True), trial("works"))
DESCRIPTORS = (trial("refused", equal=True), trial("refused"), trial("works", kind="posix-fd"))


@pytest.mark.parametrize(
    ("outcomes", "shared", "own"),
    [
        (DIFFERENT_ONLY, "", ""),
        (EQUAL_ONLY, "", ISOLATED),
        (DESCRIPTORS, "", ISOLATED),
        ((trial("refused", equal=True), trial("wrong-data")), NOTHING, ISOLATED),
    ],
    ids=["different-pids", "equal-pids", "file-descriptors", "nothing"],
)
def test_in_namespaces_of_their_own_different_pids_have_to_do(
    outcomes: tuple[dict[str, Any], ...], shared: str, own: str
) -> None:
    assert (refuted(outcomes, own_pids=False), refuted(outcomes, own_pids=True)) == (shared, own)
