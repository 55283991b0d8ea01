"""Pods whose GPUs come by resource claims, as admission leaves them, at a real API server."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.registration import create_pod
from tests.decisions.admit.test_golden_pods import CASES, NAMES, cluster_of, namespace_of, specs_of
from tests.judge import load, load_optional, policy
from webhook.decisions.admit.admission import admit
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Pod
from webhook.words.outcome import Reason

pytestmark = pytest.mark.cluster


def is_injected_with_claims(case: Path) -> bool:
    settings = load_optional(case / "config.yaml", {})
    outcome: dict[str, str] = load(case / "outcome.yaml")
    return bool(settings.get("claims", {}).get("enabled")) and outcome["reason"] == Reason.INJECTED


INJECTED = [name for name in NAMES if is_injected_with_claims(CASES / name)]


@pytest.mark.parametrize("name", INJECTED)
def test_the_api_server_takes_it_and_a_second_admission_of_what_it_makes_of_it_adds_nothing(
    control_plane: ControlPlane, namespace: str, name: str
) -> None:
    case = CASES / name
    after = load(case / "expected.yaml")
    answer = create_pod(
        control_plane, namespace, after | {"metadata": after["metadata"] | {"namespace": namespace}}, dry_run=True
    )
    assert answer.status == 201, answer.message

    rules = policy(**load(case / "config.yaml"))
    specs = specs_of(after, load_optional(case / "claims.yaml", []))
    stored = msgspec.json.decode(to_json(answer.body), type=Pod)
    again = admit(stored, namespace_of(case), rules, cluster_of(case), claim_specs=specs)
    assert (again.reason, again.operations) == (Reason.ALREADY_INJECTED, [])


@pytest.mark.parametrize(
    ("uses", "status"),
    [
        ([{"name": "gpus"}], 201),
        ([{"name": "gpus", "request": "first"}, {"name": "gpus", "request": "second"}], 201),
        ([{"name": "gpus"}, {"name": "gpus", "request": "first"}], 422),
    ],
)
def test_one_request_of_a_claim_may_not_stand_beside_all_of_it(
    control_plane: ControlPlane, namespace: str, uses: list[dict[str, Any]], status: int
) -> None:
    """Hence the remap container names such a claim once."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {
            "resourceClaims": [{"name": "gpus", "resourceClaimName": "ours"}],
            "containers": [{"name": "train", "image": "x", "resources": {"claims": uses}}],
        },
    }
    assert create_pod(control_plane, namespace, pod, dry_run=True).status == status
