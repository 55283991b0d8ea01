"""Two versions beside each other, as at an upgrade of the chart and at its way back.

The pod keeps the remap image of the webhook that prepared it first, and agents are replaced node by node. So programs
of the previous commit meet those of this one, in both directions.
"""

import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
import yaml

from tests.decisions.bind.test_binding import hami, injected
from tests.hardware.topology.machines import H20_UUIDS
from tests.judge import TEAM_A
from tests.nvml.machines import h20, write_machine
from tests.nvml.stub import environment_of
from tests.pods import ALL_ALLOWED, Manifest, container, pod
from tests.programs.remap.processes import REMAP, Done, Node, terminated
from tests.programs.remap.test_whole_way import CARRIERS, DECODE, NODE, PREFILL, bound, environment, remap_container
from tests.programs.skew.conftest import ROOT
from tests.programs.skew.previous import Ended, call
from webhook.cluster.state.topology_objects import read_published
from webhook.hardware.topology.model import NodeTopology
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Pod
from webhook.words import names
from webhook.words.errors import FormatError

PROFILES = ("exclusive", "pod-peers", "node-peers")
ENDS = {"init": 0, "sidecar": 128 + signal.SIGTERM}
"""How a container ends that found nothing wrong: a sidecar when it is told to."""
ALLOCATED = hami(list(PREFILL), list(DECODE))
Run = Callable[..., Ended]


@pytest.fixture
def run(nvml_library: Path, tmp_path: Path) -> Run:
    """Runs ``gpu-topology`` of a tree on the node with eight H20, whose files are below ``$ROOT`` of the arguments."""
    root = tmp_path / "machine"
    found = environment_of(nvml_library, write_machine(h20(), root))
    kept = {name: found[name] for name in ("LD_LIBRARY_PATH", "NVML_STUB_MACHINE", "PATH")}

    def in_tree(tree: Path, *arguments: str, stdin: str = "") -> Ended:
        told = [argument.replace("$ROOT", str(root)) for argument in arguments]
        return call(sys.executable, tree, ("-m", "webhook", *told), environment=kept, stdin=stdin)

    return in_tree


@pytest.fixture
def start(nvml_library: Path, tmp_path: Path) -> Callable[[Path, Pod], Done]:
    """Starts the remap container of a pod with the program of a tree, as the kubelet would."""

    def with_tree(tree: Path, started: Pod) -> Done:
        directory = tmp_path / "node"
        directory.mkdir()
        node = Node(nvml_library, directory, h20(), tree=tree)
        own = remap_container(started)
        assert msgspec.json.decode(own.command_json) == list(names.REMAP_COMMAND)
        arguments = msgspec.json.decode(own.args_json, type=list[str])
        if "sidecar" not in arguments:
            return node.remap(environment(started, NODE), *arguments)
        with node.started(environment(started, NODE), *arguments) as process:
            node.wait_until_ready(process)
            code = terminated(process)
            out, err = process.communicate()
        return Done(code, out, err, node.termination_log.read_text())

    return with_tree


def published_by(run: Run, tree: Path) -> str:
    """What the agent of a tree publishes of the node."""
    done = run(tree, "agent", "--dry-run", "--node", NODE, "--namespace", "nodes", "--root", "$ROOT")
    assert (done.code, done.err) == (0, "")
    return done.out


def read(text: str) -> NodeTopology:
    """What this webhook reads of it."""
    found = read_published(text, source="test")
    assert found is not None
    return found


def prepared(profile: str, carrier: str, topology: NodeTopology, allocated: str = ALLOCATED, **options: str) -> Pod:
    """A pod of two containers that this webhook has prepared and bound."""
    return bound(
        injected(
            container("prefill"),
            container("decode"),
            allocated=allocated,
            annotations={
                "gpu.topology/profile": profile,
                **{f"gpu.topology/{name}": options[name] for name in options},
            },
            cluster=CARRIERS[carrier],
            namespace=ALL_ALLOWED if profile == "node-peers" else TEAM_A,
        ),
        topology,
    )


def annotated(of: Pod, changes: Mapping[str, str]) -> Pod:
    """A pod with other annotations than it was bound with."""
    assert of.metadata is not None
    metadata = msgspec.structs.replace(of.metadata, annotations={**of.annotations, **changes})
    return msgspec.structs.replace(of, metadata=metadata)


def test_the_programs_are_those_of_the_previous_commit(previous: Path) -> None:
    asked = (
        "import webhook.programs.remap as remap, webhook.programs.agent as agent; print(remap.__file__, agent.__file__)"
    )
    done = call(sys.executable, previous, ("-c", asked), environment={}, stdin="")
    assert (done.code, done.err) == (0, "")
    assert [Path(file).is_relative_to(previous) for file in done.out.split()] == [True, True]
    assert REMAP[1:3] == ("-m", "webhook")


@pytest.mark.parametrize("carrier", ["sidecar", pytest.param("init", marks=pytest.mark.long)])
@pytest.mark.parametrize("profile", PROFILES)
def test_the_previous_remap_program_starts_a_pod_that_this_webhook_prepared_from_what_the_previous_agent_publishes(
    previous: Path, run: Run, start: Callable[[Path, Pod], Done], profile: str, carrier: str
) -> None:
    ready = prepared(profile, carrier, read(published_by(run, previous)), **{"require-nvlink": "true"})
    assert (ready.annotations[names.LINK], ready.annotations[names.SATISFIED]) == ("NVSwitch", "true")
    done = start(previous, ready)
    assert (done.code, done.err, done.reason) == (ENDS[carrier], "", "")
    assert "NVML and what was published of this node agree" in done.out
    assert "warning" not in done.out


@pytest.mark.long
def test_the_previous_remap_program_stops_a_pod_whose_cards_are_others(
    previous: Path, run: Run, start: Callable[[Path, Pod], Done]
) -> None:
    ready = prepared("node-peers", "init", read(published_by(run, previous)))
    other = annotated(ready, {names.HAMI_DEVICES_ALLOCATED: hami([H20_UUIDS[2], PREFILL[0]], list(DECODE))})
    done = start(previous, other)
    assert done.code == 12
    assert H20_UUIDS[2] in done.reason


def test_the_form_of_another_version_is_refused_and_both_are_named(previous: Path, run: Run) -> None:
    text = published_by(run, previous).replace("gpu.topology/v1", "gpu.topology/v2")
    said = (
        r"expected NodeTopology of gpu\.topology/v1, found .NodeTopology of gpu\.topology/v2.\. "
        "Webhook and agent should be of the same release$"
    )
    with pytest.raises(FormatError, match=said):
        read(text)


@pytest.mark.long
def test_the_previous_remap_program_refuses_it_too(
    previous: Path, run: Run, start: Callable[[Path, Pod], Done]
) -> None:
    ready = prepared("node-peers", "init", read(published_by(run, previous)))
    text = ready.annotations[names.NODE_TOPOLOGY].replace("gpu.topology/v1", "gpu.topology/v2")
    done = start(previous, annotated(ready, {names.NODE_TOPOLOGY: text}))
    assert done.code == 17
    assert "expected NodeTopology of gpu.topology/v1" in done.reason
    assert "NodeTopology of gpu.topology/v2" in done.reason


def waiting(run: Run, tree: Path) -> Manifest:
    """A pod that the webhook of a tree has prepared, and to which HAMi has then given cards."""
    written = pod(container("prefill"), container("decode"), annotations={"gpu.topology/require-nvlink": "true"})
    versions = ("--hami-version", "2.9.0", "--kubernetes-version", "1.33")
    done = run(tree, "inject", "-f", "-", "--offline", *versions, stdin=json.dumps(written))
    assert done.code == 0, done.err
    manifest: Manifest = yaml.safe_load(done.out)
    manifest["metadata"]["annotations"] |= {
        "hami.io/vgpu-node": NODE,
        names.HAMI_DEVICES_ALLOCATED: ALLOCATED,
        "hami.io/bind-phase": "allocating",
    }
    manifest["metadata"]["uid"] = "uid-1"
    return manifest


def decoded(manifest: Manifest) -> Pod:
    return msgspec.json.decode(to_json(manifest), type=Pod)


def test_a_pod_that_the_previous_webhook_prepared_is_bound_by_this_one_and_started_by_its_own_program(
    previous: Path, run: Run, start: Callable[[Path, Pod], Done]
) -> None:
    ready = bound(decoded(waiting(run, previous)), read(published_by(run, ROOT)))
    assert (ready.annotations[names.LINK], ready.annotations[names.SATISFIED]) == ("NVSwitch", "true")
    done = start(previous, ready)
    assert (done.code, done.err, done.reason) == (0, "", "")
    assert "NVML and what was published of this node agree" in done.out


def test_on_the_way_back_this_remap_program_starts_a_pod_of_the_previous_webhook_and_this_agent(
    previous: Path, run: Run, start: Callable[[Path, Pod], Done], tmp_path: Path
) -> None:
    manifest = waiting(run, previous)
    node = tmp_path / "node.yaml"
    node.write_text(published_by(run, ROOT))
    arguments = ("bind", "-f", "-", "--offline", "--topology", str(node), "-o", "json")
    binding = run(previous, *arguments, stdin=json.dumps(manifest))
    assert binding.code == 0, binding.err
    written = json.loads(binding.out)
    assert (written["reason"], written["link"]) == ("resolved", "NVSwitch")
    manifest["metadata"]["annotations"] |= written["annotations"]
    started = start(ROOT, decoded(manifest))
    assert (started.code, started.err, started.reason) == (0, "", "")
    assert "NVML and what was published of this node agree" in started.out
