"""Pods that are as bad as the API server takes: what they make the webhook answer, keep and reckon."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.proc import cpu_ns
from tests.control_plane.attacks.replay import Attack, Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.claims.drivers import GPU_CLASS
from tests.control_plane.claims.objects import claim_pod, container, of_template, template
from tests.control_plane.registration import gpu_container, gpu_pod
from tests.fuzz.grammar import WORST, Recipe
from tests.pods import Manifest

CONTAINERS, FEWER, VARIABLES = 200, 100, 5000
LARGEST_REPLY = 1024 * 1024
TLS = 1.01
"""What encryption adds to a long reply, at most."""


def amplified() -> Iterator[tuple[str, dict[str, Any]]]:
    """Many names, and few long values: both stay below what the API server takes of one object.

    The second has no more of anything than a pod may have here, so only the length of the reply is against it.
    """
    containers = [gpu_container(f"c{number}", 1) for number in range(CONTAINERS)]
    asked = {"gpu.topology/inject": "true"}
    names = {f"gpu.topology/env.V{number:04}": "" for number in range(VARIABLES)}
    yield f"{VARIABLES:,} names x {CONTAINERS} containers", gpu_pod("names", asked | names, *containers)
    values = {f"gpu.topology/env.V{number}": "x" * 24 * 1024 for number in range(10)}
    yield f"240 KiB of values x {FEWER} containers", gpu_pod("values", asked | values, *containers[:FEWER])


def amplify(stage: Stage) -> Found:
    """A small pod that asks for a large patch: variables by annotation, which each container gets."""
    said, faults, largest = [], [], 0
    for what, pod in amplified():
        stage.traffic.largest_reply = 0
        answer = stage.creator.creates(stage.team, pod, dry_run=True)
        reply = stage.traffic.largest_reply
        largest = max(largest, reply)
        said.append(f"{what}: {answer.short}")
        if reply > LARGEST_REPLY * TLS:
            faults.append(f"{what}: a reply of {reply:,} bytes")
        if answer.status != 422:
            faults.append(f"{what}: not refused: {answer.short}")
    stage.traffic.largest_reply = largest
    return Found("; ".join(said), tuple(faults))


TEMPLATES = 32
"""As many as are read of a pod."""
REQUESTS, SELECTORS = 32, 3
EXPRESSION = f"device.driver == '{'x' * 10_000}'"
"""The longest that the API server takes (k8s.io/api resource/v1, CELSelectorExpressionMaxLength)."""
PODS, CLAIMING_AT_ONCE = 60, 32


def fat_template(name: str) -> dict[str, Any]:
    """A template of 0.3 or, in the long form, 1 MB: etcd takes no longer object than 1.5 MiB."""
    selectors = [{"cel": {"expression": EXPRESSION}}] * SELECTORS
    wish = {"deviceClassName": GPU_CLASS, "count": 1, "selectors": selectors}
    return template(name, *({"name": f"r{number}", "exactly": wish} for number in range(REQUESTS)))


def fatten(stage: Stage) -> Found:
    """A tenant makes templates of claims of a megabyte, and small pods that name many of them, many at once."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{stage.team}/resourceclaimtemplates"
    faults, length = [], 0
    for number in range(TEMPLATES):
        answer = stage.editor.asks("POST", path, fat_template(f"t{number}"))
        if answer.status not in (201, 409):
            faults.append(f"no template: {answer.short}")
        length = max(length, len(answer.text))
    entries = [of_template(f"e{number}", f"t{number}") for number in range(TEMPLATES)]
    claiming = container(claims=[entry["name"] for entry in entries])
    # The count of GPUs makes the API server ask: the registration is that of the chart without claims.
    pod = claim_pod("many", entries, claiming, container("counted", gpus=2))
    before = cpu_ns(stage.replica)
    with ThreadPoolExecutor(CLAIMING_AT_ONCE) as threads:
        answers = list(threads.map(lambda _: stage.creator.creates(stage.team, pod, dry_run=True), range(PODS)))
    each = (cpu_ns(stage.replica) - before) / 1e6 / PODS
    faults += [f"a pod: {answer.short}" for answer in answers if answer.status not in (201, 422)]
    said = f"{PODS} pods that name {TEMPLATES} templates of {length:,} bytes: {each:.0f} ms of CPU each"
    return Found(said, tuple(dict.fromkeys(faults)))


LONG = 3 * 1024 * 1024 - 64 * 1024
"""Of the pod; the API server takes bodies of 3 MiB."""
AT_ONCE, ROUNDS = 8, 2
PROFILES = ("exclusive", "pod-peers")
ANSWERS = (201, 413, 422)
"""Created, too long with what we add, or refused with a reason."""


def lengthen(stage: Stage) -> Found:
    """The worst pods, by several clients at once, again and again."""
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


MEMORY_MIB = 200.0
CHART_MIB = 512 * 0.8
"""The limit of the chart (``resources``), less a fifth."""
ATTACKS = (
    Attack(1, "a small pod, a large patch", amplify, MEMORY_MIB),
    Attack(2, "templates as long as may be", fatten, CHART_MIB),
    Attack(3, "the longest pods", lengthen, CHART_MIB),
)
