"""A tenant with the role ``edit`` makes templates of claims of a megabyte, and small pods that name many of them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.proc import cpu_ns
from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.claims.drivers import GPU_CLASS
from tests.control_plane.claims.objects import claim_pod, container, of_template, template

TEMPLATES = 32
"""As many as are read of a pod."""
REQUESTS, SELECTORS = 32, 3
EXPRESSION = f"device.driver == '{'x' * 10_000}'"
"""The longest that the API server takes (k8s.io/api resource/v1, CELSelectorExpressionMaxLength)."""
PODS, AT_ONCE = 60, 32


def fat_template(name: str) -> dict[str, Any]:
    """A template of 0.3 or, in the long form, 1 MB: etcd takes no longer object than 1.5 MiB."""
    selectors = [{"cel": {"expression": EXPRESSION}}] * SELECTORS
    wish = {"deviceClassName": GPU_CLASS, "count": 1, "selectors": selectors}
    return template(name, *({"name": f"r{number}", "exactly": wish} for number in range(REQUESTS)))


def run(stage: Stage) -> Found:
    """The templates, and dry runs of the pods, many at once."""
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
    with ThreadPoolExecutor(AT_ONCE) as threads:
        answers = list(threads.map(lambda _: stage.creator.creates(stage.team, pod, dry_run=True), range(PODS)))
    each = (cpu_ns(stage.replica) - before) / 1e6 / PODS
    faults += [f"a pod: {answer.short}" for answer in answers if answer.status not in (201, 422)]
    said = f"{PODS} pods that name {TEMPLATES} templates of {length:,} bytes: {each:.0f} ms of CPU each"
    return Found(said, tuple(dict.fromkeys(faults)))
