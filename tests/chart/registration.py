"""The webhook configuration of the chart, with an address in place of the Service, for servers that are no pods."""

import base64
import copy
from collections.abc import Iterable
from typing import Any

from tests.chart.helm import INSTALL, documents, pick

PATIENCE_S = 30
"""The longest that Kubernetes allows: with that of the chart tests fail where the machine stands still for a while."""

PROTECTION = "gpu-topology-outputs"
"""Name of the policy that protects the annotations of pods, and of its binding."""
LIMITS = ("gpu-topology-gates", "gpu-topology-place", "gpu-topology-place-lease")
"""Names of the policies that limit the accounts of webhook and planner, and of their bindings."""


PINS = "gpu-topology-pins"
"""Name of the policy that lets no tenant write a pin, and of its binding."""
WORKLOADS = ("gpu-topology-workloads", "gpu-topology-workloads-cronjobs", "gpu-topology-workloads-jobsets")
"""Names of the policies that warn of options on workloads, and of their bindings."""


def installed_protection() -> list[dict[str, Any]]:
    """The policy of ``deploy/install.yaml`` that protects the annotations of pods, and its binding."""
    return installed_policies(PROTECTION)


def installed_limits() -> list[dict[str, Any]]:
    """The policies of ``deploy/install.yaml`` that limit what our own accounts change on pods, and their bindings."""
    return installed_policies(*LIMITS)


def installed_policies(*names: str) -> list[dict[str, Any]]:
    """The policies of ``deploy/install.yaml`` with these names, each before its binding."""
    objects = documents(INSTALL.read_text(encoding="utf-8"))
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    return [pick(objects, kind, name) for name in names for kind in kinds]


def installed_registration(url: str, authority: bytes) -> dict[str, Any]:
    """The MutatingWebhookConfiguration of ``deploy/install.yaml``, which needs no Helm.

    Args:
        url: Of our server, without a path.
        authority: Its certificate, PEM.
    """
    return registration_at(url, authority, documents(INSTALL.read_text(encoding="utf-8")))


def registration_at(url: str, authority: bytes, objects: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The MutatingWebhookConfiguration among these objects, at that address."""
    configuration = copy.deepcopy(pick(objects, "MutatingWebhookConfiguration"))
    for webhook in configuration["webhooks"]:
        path = webhook["clientConfig"]["service"]["path"]
        webhook["timeoutSeconds"] = PATIENCE_S
        webhook["clientConfig"] = {"url": f"{url}{path}", "caBundle": base64.b64encode(authority).decode()}
    return configuration
