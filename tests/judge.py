"""The judgement of an admission: a foreign library applies the patch, and the laws for every pod are checked."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonpatch
import msgspec
import yaml

from webhook.decisions.admit.admission import admit
from webhook.decisions.admit.allocated_pods import Nodes, unknown_nodes
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy, admit_policy, parse_config
from webhook.decisions.fastest_pair import FastestPair
from webhook.decisions.resolve.node import Sources
from webhook.objects.claims import ClaimSpec
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Namespace, Pod
from webhook.objects.review import encode_patch
from webhook.words.outcome import Outcome
from webhook.words.version import Version

TEAM_A = Namespace("team-a", {"gpu.topology/injection": "enabled"})
HAMI_2_9 = ClusterFacts(hami=Version(2, 9), kubernetes=Version(1, 33, 2))
NO_SPECS: Mapping[str, ClaimSpec | None] = MappingProxyType({})
HAMI_2_10_0 = ClusterFacts(hami=Version(2, 10), kubernetes=Version(1, 33, 2))


@dataclass(frozen=True)
class FixedState:
    """A cluster of which these namespaces and facts are known, and no node."""

    namespaces: Mapping[str, Namespace]
    facts: ClusterFacts = field(default_factory=ClusterFacts)

    @property
    def waiting_for(self) -> str:
        return ""

    def namespace(self, name: str) -> Namespace:
        return self.namespaces.get(name) or Namespace(name, known=False)

    def cluster(self) -> ClusterFacts:
        return self.facts

    def node(self, name: str) -> Sources:  # noqa: ARG002 - no node is known
        return Sources()

    def fastest_pair(self) -> FastestPair | None:
        return None


def policy(**settings: Any) -> AdmitPolicy:
    """Returns the policy of a configuration file with these settings."""
    return admit_policy(parse_config(settings), version="0.1.0")


def judge(
    pod: dict[str, Any],
    namespace: Namespace = TEAM_A,
    cluster: ClusterFacts = HAMI_2_9,
    rules: AdmitPolicy | None = None,
    *,
    nodes: Nodes = unknown_nodes,
    claim_specs: Mapping[str, ClaimSpec | None] = NO_SPECS,
) -> tuple[Outcome, dict[str, Any]]:
    """Admits a pod. Returns the outcome and the pod afterwards.

    Checks the laws for every pod: the input is unchanged, the patch applies, admitting the result again gives no patch
    and the same answer, and warnings have fewer than 120 characters.
    """
    rules = rules or policy()
    original = copy.deepcopy(pod)
    outcome = admit(
        msgspec.json.decode(to_json(pod), type=Pod), namespace, rules, cluster, nodes=nodes, claim_specs=claim_specs
    )
    assert pod == original
    after: dict[str, Any] = jsonpatch.apply_patch(pod, json.loads(encode_patch(outcome.operations)))
    assert pod == original
    again = admit(
        msgspec.json.decode(to_json(after), type=Pod), namespace, rules, cluster, nodes=nodes, claim_specs=claim_specs
    )
    assert again.operations == []
    assert again.allowed == outcome.allowed
    assert all(len(warning) < 120 for warning in outcome.warnings)
    return outcome, after


def load(path: Path) -> Any:
    """Reads a file with one YAML document."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def load_optional(path: Path, default: Any) -> Any:
    """Reads a file with one YAML document; returns ``default`` if there is no file."""
    return load(path) if path.exists() else default
