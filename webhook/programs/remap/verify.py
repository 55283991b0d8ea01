"""The verification of a pod's inputs on the machine on which it starts."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from webhook.decisions.resolve.node import KnownNode, Origin
from webhook.decisions.resolve.resolve import ContainerGpus, Resolution, Unresolved, UnresolvedError, resolve
from webhook.hardware.topology.model import HAMI, Gpu, NodeTopology
from webhook.programs.remap.agreement import disagreements, unseen
from webhook.programs.remap.difference import indices_differ, listed, named, shown, uuids_differ
from webhook.programs.remap.inputs import Environment, Inputs
from webhook.programs.remap.verdict import CheckResult, ExitCode, Verdict, failed, ok, warning
from webhook.words import names
from webhook.words.choices import OnViolation, Profile
from webhook.words.listing import counted

LIBRARY = "libvgpu"
"""HAMi's interception library, ``libvgpu.so``."""

_CODES = {
    Unresolved.NO_ALLOCATION: ExitCode.NOT_BOUND,
    Unresolved.BAD_ALLOCATION: ExitCode.BAD_VARIABLE,
    Unresolved.MIG_ALLOCATION: ExitCode.MIG,
    Unresolved.GPU_UNKNOWN: ExitCode.GPU_MISSING,
}
_TELLERS = {Origin.AGENT: "the agent of this node", Origin.HAMI: "HAMi's annotations of it", Origin.NVML: "NVML"}
_NOT_RUN = "the binding webhook did not run"
_SWITCH = "accept-nvidia-visible-devices-envvar-when-unprivileged"
"""nvidia-container-toolkit, api/config/v1/config.go."""
_TOOLKIT = f"does the nvidia-container-toolkit of this node let unprivileged containers ask for GPUs ({_SWITCH})?"
_AMBIGUOUS = "did not run, or could not tell the GPUs (see the events of the pod)"
_WAY_OUT = (
    f"remove {names.HAMI_NUMA_ALIGNMENT} from the template and create the pod again; {names.PREFIX}policy: single-numa "
    "asks for GPUs of one NUMA node before the Binding"
)
_LIST = f"annotation {names.VISIBLE_UUIDS}, from which {names.ENV_NVIDIA_VISIBLE_DEVICES} comes"


@dataclass(frozen=True, kw_only=True, slots=True)
class MachineState:
    """The state of the machine, as the program sees it."""

    topology: NodeTopology
    """The topology from NVML and sysfs. Its ``problem`` says why there are no GPUs."""
    preload: str = ""
    """The text of ``/etc/ld.so.preload``; empty if there is no such file."""
    mapped: bool = False
    """Whether HAMi's library is mapped into this process."""

    @property
    def has_nvml(self) -> bool:
        """Whether the driver lists any GPU, including lost ones."""
        return bool(self.topology.gpus or self.topology.lost)


def verify(inputs: Inputs, machine: MachineState) -> Verdict:
    """Compares the inputs of a pod with the machine.

    Args:
        inputs: The inputs, from admission and bind.
        machine: The state of the machine.
    """
    node = _node(inputs, machine)
    resolution, trouble = _resolved(inputs, node)
    findings = chain(
        _unbound(inputs),
        _preloaded(machine),
        _known(inputs, machine, node),
        _hidden(inputs, machine),
        trouble,
        _values(inputs, resolution),
        _requirements(inputs, resolution),
        _published(inputs, machine),
    )
    return Verdict(findings=tuple(findings), node=node, resolution=resolution)


def _node(inputs: Inputs, machine: MachineState) -> KnownNode | None:
    if machine.has_nvml:
        return KnownNode(machine.topology, origin=Origin.NVML)
    published = published_here(inputs)
    if published is None:
        return None
    return KnownNode(published, origin=Origin.HAMI if published.source == HAMI else Origin.AGENT)


def _resolved(inputs: Inputs, node: KnownNode | None) -> tuple[Resolution | None, tuple[CheckResult, ...]]:
    """Returns the right values, or None if they cannot be known, and the results of checks of the allocation."""
    if inputs.allocation_problem:
        return None, (warning(f"{inputs.allocation_problem}; so nothing can be verified"),)
    if not inputs.allocation.devices:
        return None, (_unallocated(inputs),)
    if node is None:
        return None, ()
    try:
        resolution = resolve(inputs.demand, inputs.allocation, node)
    except UnresolvedError as error:
        return None, (_trouble(inputs, node, error),)
    shares = [f"{_labels(given.gpus)} to container {given.container.name}" for given in resolution.containers]
    return resolution, (ok(f"{inputs.scheduler} gave {', '.join(shares)}: all of them are on this node"),)


def _trouble(inputs: Inputs, node: KnownNode, error: UnresolvedError) -> CheckResult:
    """Returns the result for an allocation that cannot be resolved.

    In ``exclusive`` the device plugin decides which GPUs the container sees. So the pod is stopped only for a missing
    GPU, for a list of other GPUs, and for a requirement that MIG cannot meet.
    """
    if error.reason is Unresolved.GPU_UNKNOWN and _lists_others(inputs, node):
        seen = ", ".join(map(named, node.topology.gpus)) or "none"
        text = f"{_LIST}, lists other GPUs than {inputs.scheduler} allocated: {error}. The container sees {seen}"
        return failed(ExitCode.OTHER_GPUS, text + _refit(inputs))
    text = _troubled(inputs, node, error)
    if inputs.demand.sees_others or error.reason is Unresolved.GPU_UNKNOWN:
        return failed(_CODES[error.reason], text)
    unmet = error.reason is Unresolved.MIG_ALLOCATION and inputs.demand.requirements.of_links
    if unmet and inputs.demand.on_violation is OnViolation.DENY:
        return failed(ExitCode.REQUIREMENT, f"a requirement is not met: {text}")
    return warning(text)


def _lists_others(inputs: Inputs, node: KnownNode) -> bool:
    """Returns whether allocated GPUs are not seen here because the list of the pod's GPUs does not name them."""
    if not inputs.shown or inputs.environment is Environment.FILE:
        return False
    here = {gpu.uuid for gpu in node.topology.gpus}
    absent = {device.uuid for device in inputs.allocation.devices if device.uuid} - here
    return bool(absent) and absent.isdisjoint(inputs.shown)


def _troubled(inputs: Inputs, node: KnownNode, error: UnresolvedError) -> str:
    if error.reason is Unresolved.BAD_ALLOCATION:
        return f"variable {names.REMAP_ALLOCATION}: {error}"
    published = inputs.published
    if error.reason is Unresolved.GPU_UNKNOWN and published and node.origin is Origin.NVML:
        wanted = {device.uuid for device in inputs.allocation.devices}
        if any(gpu.uuid in wanted for gpu in unseen(published, node.topology)):
            return f"{error}. It was published as a GPU of this node: {_TOOLKIT}"
    return str(error)


def _unallocated(inputs: Inputs) -> CheckResult:
    text = f"annotation {inputs.dialect.key} names no GPU: {inputs.scheduler} has given this pod none"
    if inputs.shown and inputs.environment is not Environment.FILE:
        return failed(ExitCode.OTHER_GPUS, f"{text}, but {_LIST}, lists some")
    if not inputs.demand.sees_others:
        return warning(f"{text}, so nothing can be verified")
    return failed(ExitCode.NOT_BOUND if _is_unbound(inputs) else ExitCode.OTHER_GPUS, text)


def _is_unbound(inputs: Inputs) -> bool:
    """Returns whether a value may still be the one from admission. Values from the file count as such."""
    return inputs.environment is Environment.FILE or any(_unbound(inputs))


def _unbound(inputs: Inputs) -> Iterator[CheckResult]:
    if not inputs.demand.sees_others or inputs.environment is Environment.FILE:
        return
    values = {key: (value, names.NO_CUDA_DEVICE) for key, value in inputs.visible_devices.items()}
    if inputs.profile is Profile.POD_PEERS:
        values[names.VISIBLE_UUIDS] = (inputs.visible_uuids or "", names.NO_VISIBLE_DEVICE)
    for key, (value, default) in values.items():
        if value in ("", default):
            yield failed(ExitCode.NOT_BOUND, f"{_NOT_RUN}: {_unwritten(key, value)}")


def _unwritten(key: str, value: str) -> str:
    return f"annotation {key} " + (f"still has its value from admission, {value}" if value else "is missing")


def _preloaded(machine: MachineState) -> Iterator[CheckResult]:
    file = f"/etc/ld.so.preload names {LIBRARY}" if LIBRARY in machine.preload else ""
    process = f"{LIBRARY} is part of this process" if machine.mapped else ""
    if file or process:
        advice = f"{names.ENV_DISABLE_CONTROL}=true keeps HAMi from it; or is it part of the image?"
        said = " and ".join(filter(None, (file, process)))
        yield failed(ExitCode.PRELOADED, f"HAMi's interception library is preloaded here: {said}. {advice}")
    else:
        yield ok(f"HAMi's interception library is not preloaded: /etc/ld.so.preload does not name {LIBRARY}")


def _known(inputs: Inputs, machine: MachineState, node: KnownNode | None) -> Iterator[CheckResult]:
    """Checks that there is a topology to verify with."""
    if machine.has_nvml:
        yield ok(_counted_here(inputs, machine))
        return
    problem = _blindness(inputs) or machine.topology.problem or "NVML lists no GPU"
    if node:
        told = f"annotation {names.NODE_TOPOLOGY}, which comes from {_TELLERS[node.origin]}, is believed"
        yield warning(f"the GPUs cannot be seen from here: {problem}. So {told}")
        return
    state = f"that of node {inputs.published.node}" if inputs.published else "empty"
    missing = f"annotation {names.NODE_TOPOLOGY} is {state}"
    text = f"nothing to verify with: {problem}, and {missing}"
    yield failed(ExitCode.NOTHING_TO_VERIFY_WITH, text) if inputs.demand.sees_others else warning(text)


def _counted_here(inputs: Inputs, machine: MachineState) -> str:
    text = f"NVML lists {counted(len(machine.topology.gpus) + len(machine.topology.lost), 'GPU')}"
    published = published_here(inputs)
    hidden = unseen(published, machine.topology) if published else ()
    if not hidden or inputs.demand.sees_node:
        return text
    return f"{text}; {len(hidden)} more of this node cannot be seen from here, so numbers count those that can"


def _blindness(inputs: Inputs) -> str:
    """Returns why this container sees no GPU, if the reason is a missing or empty list; else an empty text."""
    if not inputs.is_blind:
        return ""
    why = _unwritten(names.VISIBLE_UUIDS, inputs.visible_uuids or "")
    return f"this container is shown no GPU, because the binding webhook {_AMBIGUOUS}: {why}"


def _hidden(inputs: Inputs, machine: MachineState) -> Iterator[CheckResult]:
    """Checks that every GPU of the node is seen here. Otherwise host indices are wrong."""
    published = published_here(inputs)
    if not inputs.demand.sees_node or not machine.has_nvml or published is None:
        return
    hidden = unseen(published, machine.topology)
    if hidden:
        gpus = listed([named(gpu) for gpu in hidden])
        text = f"{gpus} of this node cannot be seen here, so that CUDA counts the others differently"
        yield failed(ExitCode.GPU_UNSEEN, f"{text}: {_TOOLKIT}")
    else:
        yield ok("every GPU that was published of this node is seen here")


def _values(inputs: Inputs, resolution: Resolution | None) -> Iterator[CheckResult]:
    if resolution is None:
        return
    if _is_moved(inputs, resolution):
        yield _moved(inputs, resolution)
    elif inputs.shown:
        yield _list_of_gpus(inputs, resolution)
    if not inputs.demand.sees_others:
        return
    for given in resolution.containers:
        value = inputs.visible_devices.get(given.container.visible_key, "")
        if value not in ("", names.NO_CUDA_DEVICE):
            yield _visible_devices(inputs, given, value, resolution)


def _is_moved(inputs: Inputs, resolution: Resolution) -> bool:
    """Returns whether HAMi's NUMA refit gave a pod of ``exclusive`` other GPUs, all of which the driver lists here.

    In ``exclusive`` the device plugin shows a container its GPUs, and it serves from what the refit wrote; no variable
    numbers them. In the peer profiles the containers still see the GPUs of the Binding.
    """
    if not inputs.alignment or inputs.profile is not Profile.EXCLUSIVE or resolution.node.origin is not Origin.NVML:
        return False
    return not {gpu.uuid for gpu in resolution.gpus}.issuperset(inputs.bound)


def _moved(inputs: Inputs, resolution: Resolution) -> CheckResult:
    gone = [named(gpu) for gpu in resolution.node.topology.gpus if gpu.uuid in set(inputs.bound)]
    before = listed(gone or [f"{counted(len(inputs.bound), 'GPU')} that cannot be seen here"])
    now = listed([named(gpu) for gpu in resolution.gpus])
    text = (
        f"the allocation was changed after the Binding, from {before} to {now}, as {inputs.scheduler}'s NUMA refit "
        f"does ({names.HAMI_NUMA_ALIGNMENT}: {inputs.alignment}). The new one is judged, and written into the files"
    )
    if inputs.environment is Environment.ANNOTATIONS:
        text += "; NCCL's variables that containers read from annotations are still those of the Binding"
    return warning(text)


def _refit(inputs: Inputs) -> str:
    """Returns the end of a sentence about other GPUs, for a pod whose allocation HAMi may change after the Binding."""
    if not inputs.alignment:
        return ""
    cause = f"{inputs.scheduler}'s NUMA refit may have changed the allocation after the Binding"
    return f". {cause} ({names.HAMI_NUMA_ALIGNMENT}: {inputs.alignment}): {_WAY_OUT}"


def _list_of_gpus(inputs: Inputs, resolution: Resolution) -> CheckResult:
    own = resolution.gpus
    # In exclusive no variable has indices into this list, so its order does not matter.
    is_set = inputs.profile is Profile.EXCLUSIVE and set(inputs.shown) == {gpu.uuid for gpu in own}
    known = resolution.node.topology.gpus
    differs = "" if is_set else uuids_differ(",".join(inputs.shown), own, known, scheduler=inputs.scheduler)
    return _compared(inputs, f"{_LIST}: {differs}", ok_text=f"{_LIST}, lists the GPUs of the pod", differs=differs)


def _visible_devices(inputs: Inputs, given: ContainerGpus, value: str, resolution: Resolution) -> CheckResult:
    text = f"{names.ENV_CUDA_VISIBLE_DEVICES} of container {given.container.name} is {shown(value)}"
    visible = _visible_to(inputs, given, resolution)
    uuids = {gpu.uuid for gpu in given.gpus if gpu.uuid}
    own = [gpu for gpu in visible if gpu in given.gpus or gpu.uuid in uuids]
    if len(own) < len(given.gpus):
        return warning(f"{text}: it is privileged and counts GPUs of the node that cannot be seen from here")
    differs = indices_differ(value, own, visible, inputs.scheduler)
    return _compared(inputs, f"{text}: {differs}", ok_text=f"{text}: {_labels(given.gpus)}", differs=differs)


def _visible_to(inputs: Inputs, given: ContainerGpus, resolution: Resolution) -> tuple[Gpu, ...]:
    """Returns the GPUs that a container sees, in CUDA's order; none if they are not known.

    A privileged container sees all GPUs of the node, and this container may see fewer.
    """
    if inputs.profile is not Profile.POD_PEERS:
        return resolution.node.in_cuda_order
    if not given.container.sees_node:
        return resolution.gpus
    published = published_here(inputs)
    if published is None:
        return ()
    if unseen(published, resolution.node.topology):
        return KnownNode(published, origin=Origin.AGENT).in_cuda_order
    return resolution.node.in_cuda_order


def _compared(inputs: Inputs, text: str, *, ok_text: str, differs: str) -> CheckResult:
    if not differs:
        return ok(ok_text)
    if inputs.environment is Environment.FILE:
        return warning(f"{text}. Containers read the value from the file {names.ENV_FILE}, which is right")
    return failed(ExitCode.OTHER_GPUS, text + _refit(inputs))


def _requirements(inputs: Inputs, resolution: Resolution | None) -> Iterator[CheckResult]:
    if not inputs.demand.requirements:
        return
    if resolution is None:
        yield warning("whether the requirements are met is not known")
    elif resolution.undecided and not resolution.unmet:
        yield warning(f"whether the requirements are met is not known: {resolution.undecided}")
    elif not resolution.unmet:
        yield ok(f"the requirements are met: {_found(inputs, resolution)}")
    else:
        text = f"a requirement is not met: {'; '.join(resolution.unmet)}"
        yield failed(ExitCode.REQUIREMENT, text) if inputs.demand.on_violation is OnViolation.DENY else warning(text)


def _found(inputs: Inputs, resolution: Resolution) -> str:
    required, worst = inputs.demand.requirements, resolution.worst
    links = f"the link class is {worst.link}, with {worst.bandwidth_text} GB/s" if required.of_links else ""
    return " and ".join(filter(None, (links, "the GPUs are on one NUMA node" if required.one_numa_node else "")))


def _published(inputs: Inputs, machine: MachineState) -> Iterator[CheckResult]:
    """Compares the topology that bind used with the driver's."""
    published = inputs.published
    if published is None:
        if machine.has_nvml and not inputs.demand.sees_others and inputs.environment is not Environment.FILE:
            yield warning(f"the binding webhook wrote nothing into annotation {names.NODE_TOPOLOGY}: it {_AMBIGUOUS}")
        elif inputs.demand.sees_node and machine.has_nvml and not any(_unbound(inputs)):
            text = "whether every GPU of the node is seen here is not known"
            yield warning(f"{text}: annotation {names.NODE_TOPOLOGY} is empty")
    elif published.node != inputs.node:
        yield warning(f"annotation {names.NODE_TOPOLOGY} is that of node {published.node}, this is {inputs.node}")
    elif machine.has_nvml:
        differing = list(disagreements(published, machine.topology))
        if differing:
            yield warning(f"NVML and what was published of this node disagree: {listed(differing)}")
        else:
            yield ok("NVML and what was published of this node agree")


def published_here(inputs: Inputs) -> NodeTopology | None:
    """Returns the topology that bind used, or None if it is of another node, as in a copied pod."""
    published = inputs.published
    return published if published and published.node == inputs.node else None


def _labels(gpus: tuple[Gpu, ...]) -> str:
    return " and ".join(gpu.label for gpu in gpus) if len(gpus) == 2 else " ".join(gpu.label for gpu in gpus)
