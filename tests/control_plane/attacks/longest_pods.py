"""The worst pods that the API server takes, by several clients at once, again and again."""

import json
from concurrent.futures import ThreadPoolExecutor

from bench.proc import cpu_ns
from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.fuzz.grammar import WORST, Recipe
from tests.pods import Manifest

LONG = 3 * 1024 * 1024 - 64 * 1024
"""Of the pod; the API server takes bodies of 3 MiB."""
AT_ONCE, ROUNDS = 8, 2
PROFILES = ("exclusive", "pod-peers")
ANSWERS = (201, 413, 422)
"""Created, too long with what we add, or refused with a reason."""


def run(stage: Stage) -> Found:
    """Dry runs: nothing of them is left."""
    recipes = [Recipe((part,), profile) for part in WORST for profile in PROFILES]
    bodies = [(recipe, json.dumps(_named(stage, recipe))) for recipe in recipes]
    before, faults = cpu_ns(stage.replica), []
    with ThreadPoolExecutor(AT_ONCE) as threads:
        for recipe, answer in threads.map(
            lambda each: (each[0], stage.creator.creates(stage.team, each[1], dry_run=True)), bodies * ROUNDS
        ):
            if answer.status not in ANSWERS:
                faults.append(f"{recipe.parts[0]}: {answer.short}")
    taken, sent = cpu_ns(stage.replica) - before, ROUNDS * sum(len(body) for _, body in bodies)
    pods = len(bodies) * ROUNDS
    cost = f"{taken / 1e6 / pods:.0f} ms of CPU each, {taken / sent:.0f} ns a byte"
    return Found(f"{pods} pods of 3 MiB, {AT_ONCE} at once: {cost}", tuple(dict.fromkeys(faults)))


def _named(stage: Stage, recipe: Recipe) -> Manifest:
    pod = recipe.grown(LONG)
    pod["metadata"] |= {"name": "long", "namespace": stage.team}
    return pod | {"apiVersion": "v1", "kind": "Pod"}
