"""What holds for every pod: the verdicts are those of admission, and nobody gets a traceback."""

import copy
from dataclasses import dataclass, field

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.decisions.admit.generated import (
    CLAIM_SPECS,
    claim_pods,
    claim_policies,
    clusters,
    namespaces,
    pods,
    policies,
)
from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, decoded, known, on
from tests.laws import check_laws
from tests.pods import Manifest
from webhook.cli.explain.output import as_json, as_text
from webhook.cli.workload import apply_in_place
from webhook.decisions.admit.admission import admit
from webhook.decisions.bind.binding import begin, may_be_opted_in
from webhook.decisions.bind.pod_to_bind import PodToBind
from webhook.decisions.claims.allocations import NOTHING_GIVEN, given_gpus
from webhook.decisions.claims.evidence import KnownClaims
from webhook.decisions.claims.slices import Pools, PublishedDevice, SlicePart
from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.request.assigned_node import node_of
from webhook.decisions.resolve.node import Sources
from webhook.insight.explain.evidence import Evidence
from webhook.insight.explain.examination import examine
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Finding, Report
from webhook.objects.binding import Binding, BindReason, Target
from webhook.objects.claims import (
    AllocatedDevices,
    ClaimAllocation,
    ClaimStatus,
    Consumer,
    ObjectMetadata,
    ResourceClaim,
    ResourceClaimTemplate,
    Result,
    TemplateSpec,
)
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Namespace
from webhook.words.names import INJECTED
from webhook.words.outcome import Kind, Outcome, Reason

NODE = "h20-node-1"
UID = "0b1c"
DRIVER = "gpu.nvidia.com"
DEVICES = {f"gpu-{index}": PublishedDevice(H20[index], is_whole=True, capacity={}) for index in range(8)}
READABLE = {f"{entry}-gpus": spec for entry, spec in CLAIM_SPECS.items() if spec}
CLAIMS = {name: ResourceClaim(metadata=ObjectMetadata(name=name), spec=spec) for name, spec in READABLE.items()}
TEMPLATES = {name: ResourceClaimTemplate(spec=TemplateSpec(spec=spec)) for name, spec in READABLE.items()}
UNREAD = {f"ResourceClaim{kind} unread-gpus": "may not be read" for kind in ("", "Template")}

marks = st.sampled_from(
    ["0.1.0 exclusive", "0.0.9 pod-peers", "0.1.0 node-peers", "0.1.0 observe", "who knows", "", None]
)


@dataclass(frozen=True)
class Claimed:
    """What became of the claims of a pod."""

    state: str
    devices: tuple[int, ...]
    is_published: bool
    is_reserved: bool
    is_bound: bool

    @property
    def known(self) -> KnownClaims:
        """As a cluster knows them."""
        part = SlicePart(driver=DRIVER, pool="p", generation=1, slices=1, node=NODE, devices=DEVICES)
        pools = Pools([part] if self.is_published else [])
        if self.state == "missing":
            return KnownClaims(pools=pools)
        if self.state == "template":
            return KnownClaims(templates=TEMPLATES, pools=pools, unread=UNREAD)
        results = [Result(request="gpus", driver=DRIVER, pool="p", device=f"gpu-{index}") for index in self.devices]
        status = ClaimStatus(
            allocation=ClaimAllocation(devices=AllocatedDevices(results=results)),
            reserved_for=[Consumer(resource="pods", name="train", uid=UID if self.is_reserved else "another")],
        )
        status_now = status if self.state == "allocated" else None
        claims = {name: msgspec.structs.replace(claim, status=status_now) for name, claim in CLAIMS.items()}
        return KnownClaims(claims=claims, pools=pools, unread=UNREAD)


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
    claimed: Claimed | None = field(default=None)
    """Of a pod with resource claims."""

    @property
    def outcome(self) -> Outcome:
        specs = CLAIM_SPECS if self.claimed else {}
        return admit(decoded(self.manifest), self.namespace, self.rules, self.cluster, claim_specs=specs)

    @property
    def admitted(self) -> Manifest:
        """The pod as admission leaves it."""
        changed: Manifest = apply_in_place(msgspec.json.decode(to_json(self.manifest)), self.outcome.operations)
        return changed

    def later(self, manifest: Manifest) -> Manifest:
        """The pod once the controller has made claims from its templates, perhaps on its node."""
        entries = manifest["spec"].get("resourceClaims") or []
        made = [{"name": entry["name"], "resourceClaimName": f"{entry['name']}-gpus"} for entry in entries]
        has_claims = self.claimed and self.claimed.state != "template"
        status = {"resourceClaimStatuses": made} if has_claims else {}
        spec = manifest["spec"] | ({"nodeName": NODE} if self.claimed and self.claimed.is_bound else {})
        return manifest | {"metadata": manifest["metadata"] | {"uid": UID}, "spec": spec, "status": status}

    def evidence(self, manifest: Manifest, *, claims: KnownClaims | None = None) -> Evidence:
        pod = decoded(manifest)
        return Evidence(
            pod=pod,
            namespace=self.namespace,
            policy=self.rules,
            cluster=self.cluster,
            claims=claims or (self.claimed.known if self.claimed else KnownClaims()),
            node=NODE if self.claimed else node_of(pod),
            sources=known(machines.h20()) if self.is_known else Sources(),
        )

    def report(self, manifest: Manifest) -> Report:
        return explain(self.evidence(manifest))


around = (
    clusters,
    st.sampled_from([(), (2,), (1, 1), (2, 4), (8,)]),
    st.booleans(),
    marks,
    st.booleans(),
)
drawn = st.builds(Drawn, pods(), namespaces(), policies, *around)
claimed = st.builds(
    Claimed,
    st.sampled_from(["missing", "template", "made", "allocated", "allocated"]),
    st.sampled_from([(0,), (0, 1), (2, 5, 7), (0, 0), (0, 1, 2, 3, 4, 5, 6, 7), ()]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
drawn_with_claims = st.builds(Drawn, claim_pods(), namespaces(), claim_policies, *around, claimed)


def of_a_pod_that_admission_prepared_no_step_of_admission_fails(it: Drawn) -> None:
    outcome = it.outcome
    if outcome.kind not in (Kind.PATCH, Kind.DEGRADED) or not outcome.profile or outcome.reason is Reason.OBSERVED:
        return
    evidence = it.evidence(it.admitted, claims=KnownClaims(claims=CLAIMS, templates=TEMPLATES))
    found: dict[str, Finding] = {each.condition: each for each in explain(evidence).findings}
    assert found["injected"].verdict == "holds"
    assert found["prepared"].verdict == "holds", found["prepared"]
    assert found["control"].verdict != "fails", found["control"]
    assert found["whole-cards"].verdict == "holds", found["whole-cards"]


def every_pod_can_be_explained(it: Drawn) -> None:
    bound = on(it.manifest, NODE, *(list(H20[:count]) for count in it.segments)) if it.segments else it.manifest
    found = it.report(it.later(it.manifest) if it.claimed else bound)
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


def whatever_the_mark_says_nothing_else_is_said_of_the_pod(it: Drawn) -> None:
    bound = on(it.admitted if it.is_admitted else it.manifest, NODE, list(H20[:2]))
    one, other = (it.report(each) for each in (bound, marked(bound, it.mark)))
    assert (one.reach, one.conclusion) == (other.reach, other.conclusion)
    assert [(each.condition, each.verdict) for each in one.findings] == [
        (each.condition, each.verdict) for each in other.findings
    ]
    assert [each for each in one.findings if each.condition != "injected"] == [
        each for each in other.findings if each.condition != "injected"
    ]


def a_pod_is_injected_or_observed_if_bind_says_so(it: Drawn) -> None:
    manifest = it.admitted if it.is_admitted else it.manifest
    manifest = marked(it.later(manifest) if it.claimed else manifest, it.mark)
    if it.claimed:
        manifest["spec"].pop("nodeName", None)
    evidence = it.evidence(manifest)
    pod, claims, settings_ = evidence.pod, evidence.claims, it.rules.claims
    given = given_gpus(pod, claims.claims, claims.pools, settings_, node=NODE) if settings_.enabled else NOTHING_GIVEN
    if given.problem is not None:
        return  # explain knows more than bind: templates, and what a count may be served by
    begun = begin(pod, Binding(target=Target(NODE)), it.namespace, it.rules, given)
    case = examine(evidence)
    if isinstance(begun, PodToBind) and not begun.is_prepared:
        assert (case.is_observed, case.injected) == (False, False)
    elif isinstance(begun, PodToBind):
        assert (case.is_observed, case.injected) == (begun.is_observed, not begun.is_observed)
        assert it.claimed or begun.profile == (case.injected_as or case.actual.profile)
    elif begun.reason is BindReason.NOT_INJECTED and (not it.claimed or case.given.allocation.segments):
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


@given(drawn_with_claims)
def test_every_law_holds_for_every_pod_with_claims(it: Drawn) -> None:
    before = copy.deepcopy(it.manifest)
    check_laws(LAWS, it)
    assert it.manifest == before


@given(pods(gpus=False), namespaces(), policies, clusters)
def test_a_pod_without_a_gpu_has_nothing_to_join(
    manifest: Manifest, namespace: Namespace, rules: AdmitPolicy, cluster: ClusterFacts
) -> None:
    found = Drawn(manifest, namespace, rules, cluster, (), False, None, False).report(manifest)
    is_refused = any(each.condition == "prepared" and each.stops for each in found.findings)
    assert found.reach == ("none" if is_refused else "nothing-to-join")
    assert [group.title for group in found.groups] == ["Injection"]
