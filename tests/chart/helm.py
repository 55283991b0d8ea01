"""Helm, as a person calls it, with nothing of this machine's own settings."""

import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.generated import CHART, ROOT
from tests.go_programs.catalogue import HELM
from tests.go_programs.left_out import GetProgram

RELEASE = "gpu-topology-webhook"
NAMESPACE = "gpu-topology"
ANY_NAMESPACE = "namespace-of-the-release"
KUBERNETES = "1.36"
"""For which it is rendered where no cluster is asked; otherwise each build of Helm takes another."""
VALUES = Path(__file__).with_name("values")
INSTALL = ROOT / "deploy" / "install.yaml"
INSTALL_HEAD = """\
# Everything that the chart installs with its own values, for clusters without Helm: docs/install.md.
# Written by make chart. Needs Kubernetes 1.30 or later.
apiVersion: v1
kind: Namespace
metadata:
  name: gpu-topology
  labels:
    pod-security.kubernetes.io/enforce: restricted
"""


@dataclass(frozen=True)
class Helm:
    """The program.

    Attributes:
        program: The executable file.
        home: For what it keeps.
        rendered: What it made of the chart, by its options and whether it was for ``NAMESPACE``.
    """

    program: Path
    home: Path
    rendered: dict[tuple[tuple[str, ...], bool], str] = field(default_factory=dict)

    def run(self, *arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        """Both outputs, whether it worked or not."""
        own = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))}
        return subprocess.run(
            [self.program, *arguments],
            env={**inherited, **own, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def template(self, *arguments: str | Path, namespace: str = NAMESPACE) -> str:
        """What the chart renders to.

        Raises:
            AssertionError: it does not.
        """
        given = (f"--namespace={namespace}", f"--kube-version={KUBERNETES}", *arguments)
        done = self.run("template", RELEASE, CHART, *given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def objects(self, *values: str, namespace: str = NAMESPACE, options: Iterable[str] = ()) -> list[dict[str, Any]]:
        """The objects with these files of ``values/``, later ones over earlier ones.

        The chart is rendered once with the same files and options, whichever the namespace is.
        """
        given = (*(f"--values={VALUES / name}.yaml" for name in values), *options)
        usual = namespace == NAMESPACE
        key = (given, usual)
        if key not in self.rendered:
            rendered = documents(self.template(*given, namespace=NAMESPACE if usual else ANY_NAMESPACE))
            self.rendered[key] = json.dumps(rendered)
        found: list[dict[str, Any]] = json.loads(self.rendered[key].replace(ANY_NAMESPACE, namespace))
        return found

    def install_manifest(self) -> str:
        """What ``deploy/install.yaml`` should be."""
        return f"{INSTALL_HEAD}{self.template('--no-hooks')}"


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a YAML stream."""
    return [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]


def pick(objects: Iterable[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The only object of that kind, and of that name if one is given."""
    (found,) = (one for one in objects if one["kind"] == kind and name in {"", one["metadata"]["name"]})
    return found


@pytest.fixture(scope="session")
def helm(go_program: GetProgram, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm with a home of its own."""
    return Helm(go_program(HELM), tmp_path_factory.mktemp("helm"))
