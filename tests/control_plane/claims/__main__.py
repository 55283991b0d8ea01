"""``python -m tests.control_plane.claims``: writes ``tests/cases/claims``, what a real cluster has in each state."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.control_plane.claims.cases import CASES, played, write_case
from tests.control_plane.claims.cluster import running_claims_cluster
from tests.control_plane.claims.releases import RELEASES, programs_of
from tests.go_programs.build import required

FOLDER = Path(__file__).parents[2] / "cases" / "claims"
HEAD = """# States of claims

Pods, ResourceClaims and ResourceSlices as kube-apiserver {version} had them, most of them while the pod was being
bound. `python -m tests.control_plane.claims` makes them, and `tests/control_plane/claims/test_cases.py` compares them
with what each release of Kubernetes has. Random names and UIDs are numbered, and fields that say nothing of claims are
left out.

The slices are what `tests/control_plane/claims/drivers.py` publishes: four A100, of which bridges join 0 to 1 and 2
to 3. Their device numbers, and with them the names of the devices, are 2, 3, 0, 1.

| Folder | How it was made |
|---|---|
"""


def main() -> int:
    """Returns the exit code."""
    version = next(iter(RELEASES))
    try:
        programs = programs_of(version, required)
    except LookupError as error:
        print(*error.args, file=sys.stderr)
        return 1
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="claims-")))
        cluster = stack.enter_context(running_claims_cluster(programs, directory))
        for name, case in CASES.items():
            print(name, flush=True)
            with played(cluster, case) as state:
                write_case(FOLDER, name, state)
    rows = "".join(f"| `{name}` | {case.says} |\n" for name, case in CASES.items())
    (FOLDER / "README.md").write_text(HEAD.format(version=version) + rows, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
