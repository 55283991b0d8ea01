"""``python -m tests.control_plane.load``: pods created at a rate, and what their admission costs.

The API server's own metrics tell how long it waits for our webhook. Its buckets are coarse, so our own are shown too,
and what the client sees. The same pods go first to a namespace that has not opted in: that is the machine without us.
Nothing schedules the pods. Everything shares the cores of this machine: API server, etcd, the stand-in for the Service
(a proxy in Python), the client and two replicas.

Exit codes: 0 every pod was stored as it should be, 1 one was not, or a program failed.
"""

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.control_plane.command import run_command
from tests.control_plane.control_plane import Binaries
from tests.control_plane.hami.planning import placing
from tests.control_plane.installation import registered
from tests.control_plane.load.measure import Plan, measure, report
from tests.control_plane.load.nodes import make_ready, running_cluster


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    usual = Plan()
    parser = argparse.ArgumentParser(prog="python -m tests.control_plane.load", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=usual.nodes)
    parser.add_argument("--rate", type=float, default=usual.rate, help="pods a second")
    parser.add_argument("--seconds", type=float, default=usual.seconds)
    parser.add_argument("--direct", action="store_true", help="one replica, without the stand-in for the Service")
    parser.add_argument("--planner", action="store_true", help="beside a planner, for which the pods wait")
    return run_command("load", partial(_measure, Plan(**vars(parser.parse_args(arguments)))))


def _measure(plan: Plan, binaries: Binaries, directory: Path) -> int:
    print(f"Creating {plan.nodes:,} nodes with their topologies ...", flush=True)
    with running_cluster(binaries, directory, plan.nodes) as cluster:
        print(f"Creating {plan.pods:,} pods twice, {plan.rate:g} a second ...", flush=True)
        with registered(cluster.ours, plan.registration(cluster.ours)), ExitStack() as stack:
            planner = None
            if plan.planner:
                make_ready(cluster.ours.control_plane)
                planner = stack.enter_context(placing(cluster.ours, directory))
            found = measure(plan, cluster, planner)
        report(found, cluster)
        return 1 if found.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
