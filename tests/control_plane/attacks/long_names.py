"""Names that are none: long ones, and such as a terminal obeys."""

import json

from tests.control_plane.attacks.replay import Found
from tests.control_plane.attacks.stage import Stage
from tests.control_plane.registration import gpu_pod

LONG = "n" * 2_500_000
ODD = ("a\u0085b", "a\u009b31mb", "a\u202eb", "a\u2066b", "a\x1b[2Jb", "a\nb")
LARGEST_LINE = 16 * 1024


def run(stage: Stage) -> Found:
    """By way of the API server, which looks at names after us, and past it."""
    begin = stage.log.stat().st_size
    answers = [stage.creator.creates(stage.team, gpu_pod(name, {}), dry_run=True) for name in (LONG, *ODD)]
    unknown = gpu_pod("named", {f"gpu.topology/{name}": "x" for name in (LONG[:200_000], *ODD)})
    answers.append(stage.creator.creates(stage.team, unknown, dry_run=True))
    with stage.neighbour.client() as client:
        for field in ("uid", "namespace", "name"):
            for name in (LONG, *ODD):
                client.post("/mutate/pods", content=_review(**{field: name}))
    with stage.log.open("rb") as log:
        log.seek(begin)
        written = log.read().decode(errors="replace")
    lines = written.split("\n")
    faults = [f"a line of {len(line):,} characters in the log" for line in lines if len(line) > LARGEST_LINE][:5]
    faults += [f"{name!r} is in the log as it is" for name in ODD if name in written]
    faults += [f"a pod of such a name: {answer.short}" for answer in answers if answer.status in (200, 201, 500)]
    return Found(f"{len(written):,} bytes of log, the longest line {max(map(len, lines)):,}", tuple(faults))


def _review(**fields: str) -> bytes:
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "probed",
        "object": gpu_pod(fields.get("name", "p"), {}),
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request | fields}
    return json.dumps(review).encode()
