"""The configuration file: YAML that an operator wrote, down to the policy that decisions use."""

import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.fuzz import effort
from tests.fuzz.laws import check_message
from tests.pods import container, pod
from webhook.decisions.admit.admission import admit
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy, admit_policy, parse_config
from webhook.objects.manifest.yaml_parser import parse_yaml
from webhook.objects.pod import Namespace, Pod
from webhook.words.errors import GpuTopologyError

FIXED_CALLS, CALLS_EACH = 1_500_000, 250.0
"""Reading YAML takes up to 200 calls for each byte, and more the deeper brackets are nested."""
MOST_BRACKETS = 200
"""The calls of a file with more brackets are not counted: the parser looks at each open one again for each token, until
Python ends it at some hundred levels. The file is an operator's own."""
_ROOT = Path(__file__).parents[3]


def seeds() -> Iterator[bytes]:
    """The documented file, and those of the golden cases."""
    yield (_ROOT / "deploy" / "config.yaml").read_bytes()
    for path in sorted((_ROOT / "tests" / "cases" / "pods").glob("*/config.yaml")):
        yield path.read_bytes()


def target(data: bytes) -> None:
    """Fails where reading lets out another error than its own, or a policy that was accepted decides nothing."""
    try:
        is_counted = data.count(b"{") + data.count(b"[") <= MOST_BRACKETS
        fixed = FIXED_CALLS if is_counted else sys.maxsize
        policy = effort.sampled(data, fixed=fixed, each=CALLS_EACH, work=lambda: _read(data))
    except GpuTopologyError as error:
        for line in str(error).splitlines():  # YAML shows the place in lines of its own
            check_message(line or "-")
        return
    made = msgspec.json.encode(pod(container("a", 2), container("b", 2), annotations={}))
    for profile in ("exclusive", "pod-peers"):
        namespace = Namespace("team-a", {"gpu.topology/injection": "enabled"}, {"gpu.topology/profile": profile})
        outcome = admit(msgspec.json.decode(made, type=Pod), namespace, policy, ClusterFacts())
        assert outcome.message or outcome.allowed


def _read(data: bytes) -> AdmitPolicy:
    documents = parse_yaml(data.decode("utf-8", "replace"), "the input")
    return admit_policy(parse_config(documents[0] if documents else None), version="0.1.0")
