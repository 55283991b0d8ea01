"""Roles of the chart at a real API server: what they withhold from an agent where no policy does, as before 1.30.

Roles and policy of the chart have one name in a cluster. So these tests have a module of their own.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from kubernetes.client import CoreV1Api

from tests.chart.helm import Helm
from tests.control_plane.control_plane import ControlPlane
from tests.control_plane.test_chart_agents import (
    IN_THE_NAMESPACE_OF_THE_WEBHOOK,
    KINDS,
    POLICY,
    apply_roles,
    label,
    nodes_with_agent,
    objects_of_others,
    of_others,
    refusal,
)

pytestmark = pytest.mark.cluster


def test_without_the_policy_a_stolen_token_of_an_agent_reaches_topologies_alone(
    helm: Helm, control_plane: ControlPlane, admin: CoreV1Api, namespace: str, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        apply_roles(stack, helm, control_plane, namespace, KINDS - POLICY)
        nodes = nodes_with_agent(stack, control_plane, admin, namespace, tmp_path / "log")
        of_others(admin, nodes)
        with control_plane.client(nodes.kubeconfig) as client:
            said = objects_of_others(nodes, client)
            # What remains: docs/security.md.
            assert refusal(lambda: label(client, nodes.other, {"team": "x"})) == ""
    assert {what for what, why in said.items() if why} == IN_THE_NAMESPACE_OF_THE_WEBHOOK
