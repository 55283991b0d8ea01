"""`python -m bench.fleet`: what pods get and how long they wait with the planner, beside HAMi alone, in a simulation.

Pods come by chance to a simulated cluster, run and end. All contenders get the same pods at the same times:

- `hami binpack`, `hami spread`, `hami topology-aware`: HAMi alone, by its policies. Slices then go to the least used
  card of a node, or by links with `topology-aware`; with `hami binpack-cards` to the most used.
- `oracle`: plain loops over all sets of all nodes, with what the planner knows. It gives cards at once.
- `ours bandwidth`, `ours linked`: the planner, by `placement.objective`, before HAMi with its defaults. HAMi chooses
  for slices, but with `ours bandwidth slices` and `ours linked slices` the planner does (`placement.slices: on`).

For each cluster and mix of pods the table shows:

- `linked`: of the pods of several whole cards, the share of which NVLink joins every two.
- `weakest`: GB/s of their weakest pair, mean; `of best`: as a share of the best set of the machine.
- `wait`: seconds from the creation of a pod until it has its cards, mean and 95th percentile; `of HAMi`: the mean, as a
  ratio to HAMi with `binpack`, its default. By size of pods: mean, and the longest.
- `slices linked`, and the columns after it: the same of pods with slices, in the mix `slices`.
- `pairs`, `quads`: of the cards that are free, the share that is in linked pairs and quads.
- `never`: pods that never got cards, because jobs of several pods wait for each other.
- `ms`: CPU of the planner for each pod.

The first tenth of the jobs does not count. HAMi locks a node for 2 to 3 seconds for each pod. `bench/fleet/hami.py`
says how HAMi and kube-scheduler's queue are modelled. Writes take no time, nothing fails, and there are no other pods.
"""

import argparse
import json
import sys
from dataclasses import asdict
from itertools import product

from rich.console import Console

from bench.fleet.arrivals import MIXES
from bench.fleet.comparison import Scale, compare
from bench.fleet.contenders import contenders
from bench.fleet.machines import FLEETS
from bench.fleet.ours import Settings
from bench.fleet.table import table_of
from webhook.words.choices import Objective

PODS, NODES, SEEDS, LOAD = 2000, 20, 3, 0.85


def main() -> int:
    """Simulates, prints, and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=PODS, help=f"pods of each run ({PODS})")
    parser.add_argument("--nodes", type=int, default=NODES, help=f"nodes ({NODES})")
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each contender ({SEEDS})")
    parser.add_argument("--load", type=float, default=LOAD, help=f"share of the cards in use if no pod waits ({LOAD})")
    parser.add_argument("--fleet", action="append", choices=FLEETS, help="a cluster (all)")
    parser.add_argument("--mix", action="append", choices=MIXES, help="a mix of pods (all)")
    parser.add_argument("--objective", action="append", choices=[*Objective], help="placement.objective (all)")
    parser.add_argument("--contender", action="append", help="the beginning of a name of contenders (all)")
    parser.add_argument("--on-violation", choices=("warn", "deny"), default="warn", help="of all pods (warn)")
    parser.add_argument("--place-wait", default="0s", help="of all pods (0s)")
    parser.add_argument("--json", action="store_true", help="print JSON, one line for each cluster and mix")
    arguments = parser.parse_args()
    settings = Settings(violation=arguments.on_violation, wait=arguments.place_wait)
    objectives, wanted = tuple(arguments.objective or Objective), tuple(arguments.contender or ("",))
    scale = Scale(pods=arguments.pods, nodes=arguments.nodes, seeds=arguments.seeds, load=arguments.load)
    console = Console()
    for fleet, mix in product(arguments.fleet or FLEETS, arguments.mix or MIXES):
        makers = contenders(settings, objectives, has_slices=MIXES[mix].has_slices)
        makers = {name: maker for name, maker in makers.items() if name.startswith(wanted)}
        each = compare(fleet, mix, makers, scale)
        if arguments.json:
            print(json.dumps(asdict(each)), flush=True)
        else:
            console.print(table_of(each))
    return 0


if __name__ == "__main__":
    sys.exit(main())
