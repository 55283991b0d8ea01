"""What is asked of a rendered chart again and again: pods, configuration, notes."""

from collections.abc import Iterable
from typing import Any

import yaml

from tests.chart.generated import CHART
from tests.chart.helm import NAMESPACE, RELEASE, Helm, pick
from webhook.decisions.configuration import Config, parse_config

WEBHOOK = ("Deployment", "gpu-topology-webhook")
PLANNER = ("Deployment", "gpu-topology-place")
RELEASE_JOB = ("Job", "gpu-topology-place-release")
AGENT = ("DaemonSet", "gpu-topology-agent")
"""Kind and name of what makes our pods."""
PLACES = "--set=placement.mode=on"
"""For Helm: with everything of the planner."""


def pod_template(objects: Iterable[dict[str, Any]], maker: tuple[str, str]) -> Any:
    """What the pods of a Deployment, DaemonSet or Job are made of."""
    return pick(objects, *maker)["spec"]["template"]


def config_of(objects: Iterable[dict[str, Any]]) -> Config:
    """The configuration, as the programs read it."""
    return parse_config(yaml.safe_load(pick(objects, "Secret", "gpu-topology-webhook")["stringData"]["config.yaml"]))


def notes(helm: Helm, *options: str) -> str:
    """What Helm says after an installation, for people."""
    done = helm.run("install", RELEASE, CHART, f"--namespace={NAMESPACE}", "--dry-run=client", *options)
    assert done.returncode == 0, done.stderr
    return done.stdout.partition("NOTES:\n")[2]
