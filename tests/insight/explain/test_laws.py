"""What holds for every pod: the verdicts are those of admission, and nobody gets a traceback."""

import copy
from dataclasses import dataclass

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decisions.admit.generated import clusters, namespaces, pods, policies
from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, decoded, known, on
from tests.laws import check_laws
from tests.pods import Manifest
from webhook.cli.explain.output import as_json, as_text
from webhook.cli.workload import apply_in_place
from webhook.decisions.admit.admission import admit
from webhook.decisions.bind.binding import begin, may_be_opted_in
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.resolve.node import Sources
from webhook.insight.explain.evidence import Evidence
from webhook.insight.explain.examination import examine
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Report
from webhook.objects.binding import Binding, BindReason, Target
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Namespace
from webhook.words.names import INJECTED
from webhook.words.outcome import Kind, Reason


def report(
    manifest: Manifest, namespace: Namespace, rules: AdmitPolicy, cluster: ClusterFacts, sources: Sources
) -> Report:
    pod = decoded(manifest)
    return explain(
        Evidence(
            pod=pod,
            namespace=namespace,
            policy=rules,
            cluster=cluster,
            sources=sources,
            node=node_of(pod),
        )
    )


marks = st.sampled_from(
    ["0.1.0 exclusive", "0.0.9 pod-peers", "0.1.0 node-peers", "0.1.0 observe", "who knows", "", None]
)


@dataclass(frozen=True)
class Drawn:
    """A pod, what is known around it, and what each law varies."""

    manifest: Manifest
    namespace: Namespace
    rules: AdmitPolicy
    cluster: ClusterFacts
    segments: tuple[int, ...]
    is_known: bool
    mark: str | None
    is_admitted: bool


drawn = st.builds(
    Drawn,
    pods(),
    namespaces(),
    policies,
    clusters,
    st.sampled_from([(), (2,), (1, 1), (2, 4), (8,)]),
    st.booleans(),
    marks,
    st.booleans(),
)


def of_a_pod_that_admission_prepared_no_step_of_admission_fails(it: Drawn) -> None:
    outcome = admit(decoded(it.manifest), it.namespace, it.rules, it.cluster)
    if outcome.kind not in (Kind.PATCH, Kind.DEGRADED) or not outcome.profile or outcome.reason is Reason.OBSERVED:
        return
    prepared = apply_in_place(msgspec.json.decode(to_json(it.manifest)), outcome.operations)
    findings = report(prepared, it.namespace, it.rules, it.cluster, Sources()).findings
    found = {finding.condition: finding for finding in findings}
    assert found["injected"].verdict == "holds"
    assert found["prepared"].verdict == "holds", found["prepared"]
    assert found["control"].verdict != "fails", found["control"]
    assert found["whole-cards"].verdict == "holds", found["whole-cards"]


def every_pod_can_be_explained(it: Drawn) -> None:
    bound = on(it.manifest, "h20-node-1", *(list(H20[:count]) for count in it.segments)) if it.segments else it.manifest
    found = report(bound, it.namespace, it.rules, it.cluster, known(machines.h20()) if it.is_known else Sources())
    assert found.conclusion.endswith(".")
    assert len(as_text(found).splitlines()) > len(found.findings)
    assert as_json(found).startswith("{")
    assert all(finding.remedy for finding in found.findings if finding.fails)


def marked(manifest: Manifest, mark: str | None) -> Manifest:
    """The pod with this mark instead of its own."""
    own = manifest["metadata"].get("annotations") or {}
    others = {key: value for key, value in own.items() if key != INJECTED}
    annotations = others | ({INJECTED: mark} if mark is not None else {})
    return manifest | {"metadata": manifest["metadata"] | {"annotations": annotations}}


def admitted(manifest: Manifest, namespace: Namespace, rules: AdmitPolicy, cluster: ClusterFacts) -> Manifest:
    """The pod as admission leaves it."""
    outcome = admit(decoded(manifest), namespace, rules, cluster)
    changed: Manifest = apply_in_place(msgspec.json.decode(to_json(manifest)), outcome.operations)
    return changed


def whatever_the_mark_says_nothing_else_is_said_of_the_pod(it: Drawn) -> None:
    manifest = admitted(it.manifest, it.namespace, it.rules, it.cluster) if it.is_admitted else it.manifest
    bound = on(manifest, "h20-node-1", list(H20[:2]))
    one, other = (
        report(each, it.namespace, it.rules, it.cluster, known(machines.h20()))
        for each in (bound, marked(bound, it.mark))
    )
    assert (one.reach, one.conclusion) == (other.reach, other.conclusion)
    assert [(each.condition, each.verdict) for each in one.findings] == [
        (each.condition, each.verdict) for each in other.findings
    ]
    assert [each for each in one.findings if each.condition != "injected"] == [
        each for each in other.findings if each.condition != "injected"
    ]


def a_pod_is_injected_or_observed_if_bind_says_so(it: Drawn) -> None:
    manifest = admitted(it.manifest, it.namespace, it.rules, it.cluster) if it.is_admitted else it.manifest
    pod = decoded(marked(manifest, it.mark))
    begun = begin(pod, Binding(target=Target("h20-node-1")), it.namespace, it.rules)
    case = examine(Evidence(pod=pod, namespace=it.namespace, policy=it.rules, cluster=it.cluster))
    if isinstance(begun, PodToBind) and not begun.is_prepared:
        assert (case.is_observed, case.injected) == (False, False)
    elif isinstance(begun, PodToBind):
        assert (case.is_observed, case.injected) == (begun.is_observed, not begun.is_observed)
        assert begun.profile == (case.injected_as or case.actual.profile)
    elif begun.reason is BindReason.NOT_INJECTED:
        families = {container.request.family for container in case.requests.containers if container.request}
        assert not case.is_observed or len(families) > 1  # no scheduler gives such a pod GPUs to look at
        assert not case.injected or not may_be_opted_in(pod, it.namespace)


LAWS = (
    of_a_pod_that_admission_prepared_no_step_of_admission_fails,
    every_pod_can_be_explained,
    whatever_the_mark_says_nothing_else_is_said_of_the_pod,
    a_pod_is_injected_or_observed_if_bind_says_so,
)


# Half of the pods are left alone by admission: as many again are drawn for the first law.
@settings(max_examples=2 * settings().max_examples)
@given(drawn)
def test_every_law_holds_for_every_pod(it: Drawn) -> None:
    before = copy.deepcopy(it.manifest)
    check_laws(LAWS, it)
    assert it.manifest == before


@given(pods(gpus=False), namespaces(), policies, clusters)
def test_a_pod_without_a_gpu_has_nothing_to_join(
    manifest: Manifest, namespace: Namespace, rules: AdmitPolicy, cluster: ClusterFacts
) -> None:
    found = report(manifest, namespace, rules, cluster, Sources())
    is_refused = any(each.condition == "prepared" and each.stops for each in found.findings)
    assert found.reach == ("none" if is_refused else "nothing-to-join")
    assert [group.title for group in found.groups] == ["Injection"]
