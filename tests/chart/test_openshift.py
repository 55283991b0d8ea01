"""The chart on OpenShift, where a namespace gives its pods users and groups."""

import pytest

from tests.chart.generated import CHART
from tests.chart.helm import Helm, pick
from tests.chart.rendered import AGENT, PLACES, PLANNER, RELEASE_JOB, WEBHOOK, pod_template

pytestmark = pytest.mark.cluster

VALUES = f"--values={CHART / 'values-openshift.yaml'}"
API = "--api-versions=security.openshift.io/v1"
USERS = {"runAsUser", "runAsGroup", "fsGroup"}


@pytest.mark.parametrize(
    ("options", "is_openshift"),
    [
        ((), False),
        ((API,), True),
        ((API, "--set=openshift.enabled=false"), False),
        (("--set=openshift.enabled=true",), True),
        ((VALUES,), True),
    ],
)
def test_pods_name_users_unless_the_cluster_is_openshift(
    helm: Helm, options: tuple[str, ...], *, is_openshift: bool
) -> None:
    objects = helm.objects(options=[PLACES, *options])
    for maker in (WEBHOOK, PLANNER, RELEASE_JOB, AGENT):
        spec = pod_template(objects, maker)["spec"]
        assert spec["securityContext"].keys() & USERS == (set() if is_openshift else USERS)
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["containers"][0]["securityContext"].keys().isdisjoint(USERS)


def test_the_values_let_pods_reach_the_dns_of_openshift(helm: Helm) -> None:
    policy = pick(helm.objects(options=[VALUES, "--set=networkPolicy.enabled=true"]), "NetworkPolicy", AGENT[1])
    assert {port["port"] for port in policy["spec"]["egress"][-1]["ports"]} == {53, 5353}
