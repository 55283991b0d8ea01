"""``python -m tests.control_plane.hami [RELEASE]``: the cluster of the tests, for a person, until Ctrl-C."""

import shutil
import signal
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client import CoreV1Api

from tests.control_plane.control_plane import Binaries, ControlPlane
from tests.control_plane.controller_manager import running_controller_manager
from tests.control_plane.hami.cluster import running_cluster
from tests.control_plane.hami.planning import placing
from tests.control_plane.hami.scheduler import USER, Programs
from tests.control_plane.installation import registered
from tests.control_plane.processes import NotRunningError
from tests.go_programs.build import required
from tests.go_programs.catalogue import (
    ETCD,
    HAMI_SCHEDULERS,
    KUBE_APISERVER,
    KUBE_CONTROLLER_MANAGER,
    KUBE_SCHEDULER,
    KUBECTL,
)
from tests.nvml.library import compile_stub
from tests.programs.server.conftest import until

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
HOW_TO = """
A control plane with HAMi {release}, two replicas of the webhook, and the planner. No container ever runs.
In another terminal:

  export KUBECONFIG={kubeconfig}
  PATH="$PATH:{kubectl.parent}"  # a kubectl, if you have none
  kubectl apply -f examples/workloads/03-pd-prefill.yaml -f examples/workloads/04-pd-decode.yaml
  kubectl get pods -n inference -o yaml | grep gpu.topology
  {command} explain --kubeconfig $KUBECONFIG inference/POD

The planner chooses the cards of pods of whole cards. What it chose, and what waiting pods wait for:
  kubectl get pods -A -o custom-columns='POD:.metadata.name,PLACED:.metadata.annotations.gpu\\.topology/placed'
  kubectl get events -A --field-selector reportingComponent=gpu.topology/planner

There is no kubelet: pods stay Pending, also those with a node, and end by force: kubectl delete pod --force POD
HAMi is the only scheduler: pods without GPUs get no node. RayJobs and the like are not installed; for those
  {command} inject --state examples/state -f examples/workloads/02-fsdp-video-rayjob.yaml
Nodes: h20-node-1 (eight H20, NVSwitch), a100-bridged (four A100, two bridged pairs). Logs: {logs}
Ctrl-C takes everything down.
"""


def main(arguments: list[str]) -> int:
    """Returns the exit code."""
    release = arguments[0] if arguments else "2.10.0"
    if release not in HAMI_SCHEDULERS or len(arguments) > 1:
        print(f"expected a release of HAMi, one of {', '.join(HAMI_SCHEDULERS)}", file=sys.stderr)
        return 2
    try:
        hami = Programs(required(KUBE_SCHEDULER), required(HAMI_SCHEDULERS[release]))
        controllers, kubectl = required(KUBE_CONTROLLER_MANAGER), required(KUBECTL)
        binaries = Binaries(etcd=required(ETCD), kube_apiserver=required(KUBE_APISERVER))
    except LookupError as error:
        print(*error.args, file=sys.stderr)
        return 1
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    directory = Path(tempfile.mkdtemp(prefix="gpu-topology-cluster-"))
    try:
        with ExitStack() as stack:
            compile_stub(directory / "nvml")
            print("Starting the control plane ...", flush=True)
            cluster = stack.enter_context(running_cluster(binaries, hami, release, directory, directory / "nvml"))
            log = directory / "kube-controller-manager.log"
            stack.enter_context(running_controller_manager(cluster.control_plane, controllers, log))
            _create_namespaces(cluster.control_plane)
            cluster.ours.learn()
            stack.enter_context(registered(cluster.ours, cluster.ours.registration(scheduler=USER)))
            stack.enter_context(placing(cluster.ours, directory))
            said = {
                "release": release,
                "kubeconfig": cluster.control_plane.kubeconfig,
                "kubectl": kubectl,
                "command": Path(sys.executable).with_name("gpu-topology"),
                "logs": directory,
            }
            print(HOW_TO.format(**said), flush=True)
            stop.wait()
            print("Taking it down ...", flush=True)
    except NotRunningError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(directory)
    return 0


def _create_namespaces(control_plane: ControlPlane) -> None:
    """Those of the examples, once pods can be created there."""
    with control_plane.client() as client:
        core = CoreV1Api(client)
        for path in sorted((EXAMPLES / "state" / "namespaces").glob("*.yaml")):
            manifest: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
            core.create_namespace(manifest)
            name = manifest["metadata"]["name"]

            def has_account(name: str = name) -> bool:
                return bool(core.list_namespaced_service_account(name).items)

            until(has_account, f"the service account of {name}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
