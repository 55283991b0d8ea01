"""Reviews with what surrounds them: the namespace, the versions of the cluster, the number of a configuration.

A scene is JSON: ``{"namespace": {"labels": ..., "annotations": ...}, "cluster": {"hami": "2.9.0", ...}, "policy": 0,
"review": {...}}``. What is no scene is the body of a request, in a namespace that has opted in.
"""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import yaml

from tests.decisions.admit.generated import nodes
from tests.decisions.claims.kept import KeptClaims
from tests.judge import TEAM_A, load, load_optional, policy
from tests.pods import ALL_ALLOWED, container, pod
from webhook.decisions.claims.slices import Pools, SlicePart, slice_part
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy, ClaimSettings
from webhook.decisions.fastest_pair import FastestPair
from webhook.decisions.resolve.node import Sources
from webhook.objects.claims import decode_slice
from webhook.objects.manifest.templates import find_templates
from webhook.objects.pod import Namespace
from webhook.programs.server.log import ReviewLog
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.version import Version

Manifest = dict[str, Any]
ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases" / "pods"
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"

_SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"defaults": {"inject": "true", "profile": "pod-peers", "env.NCCL_DEBUG": "VERSION", "env.A": ""}},
    {"defaults": {"profile": "observe", "shm-size": "4Gi"}, "cluster": {"kubernetesVersion": "1.35"}},
    {"cluster": {"deviceListStrategy": "cdi-cri", "defaultCount": 2}},
    {"cluster": {"hamiVersion": "2.10.0", "kubernetesVersion": "1.33"}},
    {"cluster": {"kubernetesVersion": "1.35"}, "remap": {"environment": "file"}},
    {
        "nccl": {
            "nvswitch": {"NCCL_ALGO": "NVLS", "NCCL_MIN_NCHANNELS": "16"},
            "nvlink": {"NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "16"},
            "pcie": {"NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "16", "NCCL_PROTO": "Simple"},
            "multinode": {"NCCL_IB_HCA": "mlx5"},
            "pcieP2PLevel": "PHB",
        }
    },
)


@contextmanager
def kept_log() -> Iterator[tuple[ReviewLog, Callable[[], list[bytes]]]]:
    """A log, and what gives the lines that it has written."""
    with TemporaryFile(buffering=0) as file:

        def lines() -> list[bytes]:
            return os.pread(file.fileno(), file.seek(0, os.SEEK_END), 0).splitlines()

        yield ReviewLog(file.fileno()), lines


@dataclass(frozen=True)
class Scene:
    """What an input stands for. It is also the state of the cluster: one namespace and one machine."""

    body: bytes
    of: Namespace = TEAM_A
    """The namespace; whatever the review calls it."""
    versions: ClusterFacts = field(default_factory=ClusterFacts)
    rules: AdmitPolicy = field(default_factory=policy)
    document: Manifest = field(default_factory=dict)
    """All of the input."""
    claims: KeptClaims = field(default_factory=KeptClaims)
    """The ResourceClaims and templates of the namespace, and the devices of all ResourceSlices."""
    waiting_for = ""

    def namespace(self, name: str) -> Namespace:
        """The namespace, under the name that is asked for."""
        return Namespace(name, dict(self.of.labels), dict(self.of.annotations), known=self.of.known)

    def cluster(self) -> ClusterFacts:
        """Its versions."""
        return self.versions

    def fastest_pair(self) -> FastestPair | None:
        return None

    def node(self, name: str) -> Sources:
        """What is known of a node."""
        return nodes(name)


def read_scene(data: bytes) -> Scene:
    """What an input stands for: any bytes are a scene."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return Scene(data)
    if not isinstance(document, dict) or "review" not in document:
        return Scene(data)
    number = document.get("policy")
    policies = known_policies()
    return Scene(
        _encoded(document["review"]),
        _namespace(document.get("namespace")),
        _versions(document.get("cluster")),
        policies[number % len(policies)] if isinstance(number, int) else policies[0],
        document,
        KeptClaims(dict(_claims(document.get("claims"))), Pools(_slices(document.get("slices")))),
    )


def _claims(value: Any) -> Iterator[tuple[tuple[str, str], bytes]]:
    for manifest in value if isinstance(value, list) else ():
        metadata = manifest.get("metadata") if isinstance(manifest, dict) else None
        if isinstance(metadata, dict):
            kind = "claim" if manifest.get("kind") == "ResourceClaim" else "template"
            yield (kind, str(metadata.get("name"))), _encoded(manifest)


def _slices(value: Any) -> Iterator[SlicePart]:
    for manifest in value if isinstance(value, list) else ():
        with suppress(FormatError):
            if part := slice_part(decode_slice(_encoded(manifest), "a slice"), ClaimSettings()):
                yield part


def _encoded(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return b"[]"


def _namespace(value: Any) -> Namespace:
    if not isinstance(value, dict):
        return TEAM_A
    known = value.get("known") is not False
    return Namespace("team-a", _texts(value.get("labels")), _texts(value.get("annotations")), known=known)


def _texts(value: Any) -> dict[str, str]:
    """As the API server has them: keys and values are texts."""
    return {key: str(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _versions(value: Any) -> ClusterFacts:
    found = _texts(value)
    claimed = found.get("claimed")
    return ClusterFacts(
        hami=_version(found.get("hami")),
        kubernetes=_version(found.get("kubernetes")),
        claimed=None if claimed is None else frozenset({claimed}),
        has_hami_dra="hamiDra" in found,
    )


def _version(text: str | None) -> Version | None:
    try:
        return Version.parse(text, source="scene") if text else None
    except FormatError:
        return None


@cache
def known_policies() -> tuple[AdmitPolicy, ...]:
    """The configurations that a scene may name by number: some of our own, and those of the golden cases."""
    return (*(policy(**settings) for settings in _SETTINGS), *(policy(**settings) for _, settings in _configured()))


def _configured() -> list[tuple[str, Any]]:
    return [(path.parent.name, load(path)) for path in sorted(CASES.glob("*/config.yaml"))]


def golden_scenes() -> Iterator[Manifest]:
    """The golden cases: pods before and, where there is one, after their admission."""
    numbers = {name: len(_SETTINGS) + number for number, (name, _) in enumerate(_configured())}
    for case in sorted(path for path in CASES.iterdir() if path.is_dir()):
        namespace = load_optional(case / "namespace.yaml", {"metadata": {"labels": dict(TEAM_A.labels)}})
        cluster = load_optional(case / "cluster.yaml", {})
        for name in ("pod.yaml", "expected.yaml"):
            if (case / name).exists():
                yield {
                    "namespace": {
                        "labels": namespace["metadata"].get("labels", {}),
                        "annotations": namespace["metadata"].get("annotations", {}),
                    },
                    "cluster": {
                        "hami": cluster.get("hamiVersion", "2.9.0"),
                        "kubernetes": cluster.get("kubernetesVersion", "1.33.2"),
                    },
                    "policy": numbers.get(case.name, 0),
                    "pod": load(case / name),
                    "claims": load_optional(case / "claims.yaml", []),
                }


def example_pods() -> Iterator[Manifest]:
    """The pods of ``examples/``, whatever kind holds them."""
    for path in sorted((ROOT / "examples").glob("*/**/*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            for template in find_templates(document):
                yield {"apiVersion": "v1", "kind": "Pod", "metadata": {}} | dict(template.value)


def peers() -> Iterator[Manifest]:
    """Pods of two containers that share their GPUs, under each configuration, in a namespace that may do everything."""
    marked = {names.CUDA_VISIBLE_DEVICES_PREFIX + "0": "0,1", names.CONFIG_MIRROR: "1"}
    for number in range(len(_SETTINGS)):
        for profile in ("pod-peers", "node-peers"):
            annotations = {
                "gpu.topology/profile": profile,
                "gpu.topology/topology-file": "true",
                "gpu.topology/group": "g",
            }
            for more in ({}, marked):
                made = pod(container("prefill"), container("decode"), annotations=annotations | more)
                yield {
                    "namespace": {"labels": dict(ALL_ALLOWED.labels), "annotations": {}},
                    "cluster": {"hami": "2.10.0", "kubernetes": "1.28.15" if number % 2 else "1.35.1"},
                    "policy": number,
                    "pod": made,
                }


def pod_review(pod: Any, **request: Any) -> Manifest:
    """The review of a pod's creation, as the API server sends it."""
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": UID,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
            "name": "train",
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
            "object": pod,
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }


def binding_review(binding: Any, **request: Any) -> Manifest:
    """The review of a Binding's creation."""
    fields = {"subResource": "binding", "kind": {"group": "", "version": "v1", "kind": "Binding"}, **request}
    return pod_review(binding, **fields)


def written(document: Any) -> bytes:
    """A seed: compact, and with all characters as they are."""
    return json.dumps(document, separators=(",", ":"), default=str).encode()
