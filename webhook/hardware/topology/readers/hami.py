"""The topology of a node from the annotations of HAMi's device plugin; used where no agent publishes one.

The annotations have the GPUs, their NUMA nodes and, if HAMi rates pairs, the links and PCIe paths between GPUs. They
have no bus ids, NICs or CPUs. Missing values are left out, and ``problem`` says why.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from webhook.hardware.topology.consistency import checked
from webhook.hardware.topology.model import HAMI, NO_INDICES, Gpu, LostGpu, MigMode, NodeTopology
from webhook.hardware.topology.readers.hami_register import RegisteredGpu, parse_register
from webhook.hardware.topology.readers.hami_scores import Score, parse_scores
from webhook.hardware.topology.readers.pair_links import links_by_gpu
from webhook.hardware.topology.readers.products import product
from webhook.words import names
from webhook.words.errors import FormatError

_UNHEALTHY = "HAMi reports it unhealthy"
_NO_GPU = "HAMi registered no GPU."
_NO_SCORES = (
    "HAMi published no pair scores, so links are unknown: run the agent, or set gpuSchedulerPolicy to topology-aware in"
    " the values of HAMi's chart ({since} or later{why})."
)
_OTHER_SCORES = "HAMi's pair scores are not those of the GPUs that it registered, so links are unknown."
_NO_SWITCHES = "HAMi before 2.10 does not see NVSwitches, so links are unknown: update HAMi."
_MIG = "mig"
_NAMED_PAIRS = 3

_Gpus = Mapping[int, RegisteredGpu]
_Scores = Mapping[tuple[int, int], Score]
"""The score of each pair, the lesser index first."""


def read_hami(register: str, score: str | None, *, node: str, source: str) -> NodeTopology:
    """Reads the topology of a node from HAMi's annotations.

    Args:
        register: Value of the annotation ``hami.io/node-nvidia-register``. Its memory, and so ``memory_mib``, is
            multiplied with HAMi's deviceMemoryScaling.
        score: Value of the annotation ``hami.io/node-nvidia-score``; None if the node has none.
        node: Name of the node.
        source: The name of the annotated object in messages, for example ``Node gpu-1``.

    Raises:
        FormatError: an annotation does not have the form that HAMi writes, or contradicts itself.
    """
    where = f"{source}: annotation {names.HAMI_NODE_REGISTER}"
    registered = _by_index(parse_register(register, source=where), where)
    healthy = {index: gpu for index, gpu in registered.items() if gpu.healthy}
    rated = f"{source}: annotation {names.HAMI_NODE_SCORE}"
    scores = _scores(healthy, parse_scores(score, source=rated) if score else {})
    paths = _paths(healthy, scores)
    gpus = [_gpu(index, gpu, paths[index]) for index, gpu in healthy.items()]
    counts = {} if _is_blind(healthy, scores) else {pair: score.links for pair, score in scores.items() if score.rated}
    on_boards = [gpu.index for gpu in gpus if product(gpu.name).nvlink_board]
    links = links_by_gpu(counts, {gpu.index: gpu.sm for gpu in gpus}, source=rated, on_boards=on_boards)
    lost = (
        LostGpu(index=index, problem=_UNHEALTHY, uuid=gpu.uuid)
        for index, gpu in sorted(registered.items())
        if not gpu.healthy
    )
    topology = NodeTopology(
        node=node,
        source=HAMI,
        problem=" ".join(_problems(registered, healthy, scores, is_published=bool(score))),
        gpus=tuple(replace(gpu, nvlinks=links[gpu.index]) for gpu in gpus),
        lost=tuple(lost),
    )
    return checked(topology, source=where)


def _by_index(registered: list[RegisteredGpu], where: str) -> _Gpus:
    indices = [position if gpu.index is None else gpu.index for position, gpu in enumerate(registered)]
    for what, values in (("UUID", [gpu.uuid for gpu in registered]), ("index", indices)):
        value, count = max(Counter[object](values).items(), key=lambda entry: entry[1], default=("", 0))
        if count > 1:
            raise FormatError(where, expected=f"each {what} once", found=f"{value} {count} times")
    return dict(zip(indices, registered, strict=True))


def _scores(gpus: _Gpus, scores: Mapping[str, Mapping[str, Score]]) -> _Scores:
    """Returns the scores of all pairs. If any pair has none, the scores are of other GPUs, and none are returned."""
    found = {
        (one, other): scores[gpus[one].uuid][gpus[other].uuid]
        for one, other in combinations(sorted(gpus), 2)
        if gpus[other].uuid in scores.get(gpus[one].uuid, {})
    }
    return found if len(found) == len(gpus) * (len(gpus) - 1) // 2 else {}


def _is_blind(gpus: _Gpus, scores: _Scores) -> bool:
    """Returns whether HAMi saw no link although the boards of some GPUs always have links."""
    boards = {index for index, gpu in gpus.items() if gpu.mode != _MIG and product(gpu.name).nvlink_board}
    rated = any(score.rated and boards.issuperset(pair) for pair, score in scores.items())
    return rated and not any(score.links for score in scores.values())


def _paths(gpus: _Gpus, scores: _Scores) -> dict[int, list[tuple[str, str]]]:
    """Returns for each GPU the labels of the GPUs to which the PCIe path is known, each with the path."""
    found: dict[int, list[tuple[str, str]]] = {index: [] for index in gpus}
    for (one, other), score in scores.items():
        if score.path:
            found[one].append((f"GPU{other}", score.path.value))
            found[other].append((f"GPU{one}", score.path.value))
    return found


def _gpu(index: int, gpu: RegisteredGpu, paths: list[tuple[str, str]]) -> Gpu:
    known = product(gpu.name)
    return Gpu(
        index=index,
        uuid=gpu.uuid,
        name=gpu.name,
        compute_capability=known.compute_capability,
        memory_mib=gpu.memory_mib,
        numa_node=gpu.numa_node,
        mig_mode=MigMode.ENABLED if gpu.mode == _MIG else MigMode.UNSUPPORTED,
        pcie=known.pcie,
        distance=tuple(paths),
    )


def _problems(registered: _Gpus, healthy: _Gpus, scores: _Scores, *, is_published: bool) -> Iterator[str]:
    if not registered:
        yield _NO_GPU
    if any(gpu.index is None for gpu in registered.values()):
        yield NO_INDICES
    if len(healthy) > 1 and not scores:
        boards = [gpu.name for gpu in healthy.values() if product(gpu.name).nvlink_board]
        why = f": earlier ones see no NVSwitches, which {boards[0]} may have" if boards else ""
        yield _OTHER_SCORES if is_published else _NO_SCORES.format(since="2.10" if boards else "2.7", why=why)
    if _is_blind(healthy, scores):
        yield _NO_SWITCHES
    unrated = [f"GPU{one} and GPU{other}" for (one, other), score in scores.items() if not score.rated]
    if unrated:
        more = f" and {len(unrated) - _NAMED_PAIRS} other pairs" if len(unrated) > _NAMED_PAIRS else ""
        pairs = ", ".join(unrated[:_NAMED_PAIRS])
        yield f"HAMi found no path, or links in one direction only, between {pairs}{more}."
