"""What holds for every pod with resource claims, whatever became of the claims."""

import copy
from dataclasses import dataclass

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.admit.generated import CLAIM_SPECS, claim_pods, claim_policies, clusters, namespaces
from tests.hardware.topology import machines
from tests.insight.explain.situations import H20, decoded, known
from tests.insight.explain.test_laws import marked, marks
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
from webhook.decisions.resolve.node import Sources
from webhook.insight.explain.evidence import Evidence
from webhook.insight.explain.examination import examine
from webhook.insight.explain.explain import explain
from webhook.insight.explain.findings import Report
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
from webhook.words.outcome import Kind, Reason

NODE = "h20-node-1"
UID = "0b1c"
DRIVER = "gpu.nvidia.com"
DEVICES = {f"gpu-{index}": PublishedDevice(H20[index], is_whole=True, capacity={}) for index in range(8)}


@dataclass(frozen=True)
class Drawn:
    """A pod, what is known around it, and what became of its claims."""

    manifest: Manifest
    namespace: Namespace
    rules: AdmitPolicy
    cluster: ClusterFacts
    state: str
    devices: tuple[int, ...]
    is_published: bool
    is_reserved: bool
    is_bound: bool
    mark: str | None

    @property
    def pools(self) -> Pools:
        part = SlicePart(driver=DRIVER, pool="p", generation=1, slices=1, node=NODE, devices=DEVICES)
        return Pools([part] if self.is_published else [])

    @property
    def claims(self) -> KnownClaims:
        """As a cluster knows them."""
        if self.state == "missing":
            return KnownClaims(pools=self.pools)
        readable = {f"{entry}-gpus": spec for entry, spec in CLAIM_SPECS.items() if spec}
        unread = {f"ResourceClaim{kind} unread-gpus": "may not be read" for kind in ("", "Template")}
        results = [Result(request="gpus", driver=DRIVER, pool="p", device=f"gpu-{index}") for index in self.devices]
        status = ClaimStatus(
            allocation=ClaimAllocation(devices=AllocatedDevices(results=results)),
            reserved_for=[Consumer(resource="pods", name="train", uid=UID if self.is_reserved else "another")],
        )
        if self.state == "template":
            templates = {name: ResourceClaimTemplate(spec=TemplateSpec(spec=spec)) for name, spec in readable.items()}
            return KnownClaims(templates=templates, pools=self.pools, unread=unread)
        claims = {
            name: ResourceClaim(
                metadata=ObjectMetadata(name=name),
                spec=spec,
                status=status if self.state == "allocated" else None,
            )
            for name, spec in readable.items()
        }
        return KnownClaims(claims=claims, pools=self.pools, unread=unread)

    def later(self, manifest: Manifest) -> Manifest:
        """The pod once the controller has made claims from its templates, perhaps on its node."""
        entries = manifest["spec"].get("resourceClaims") or []
        made = [{"name": entry["name"], "resourceClaimName": f"{entry['name']}-gpus"} for entry in entries]
        spec = manifest["spec"] | ({"nodeName": NODE} if self.is_bound else {})
        status = {} if self.state == "template" else {"resourceClaimStatuses": made}
        return manifest | {"metadata": manifest["metadata"] | {"uid": UID}, "spec": spec, "status": status}

    def report(self, manifest: Manifest) -> Report:
        return explain(self.evidence(manifest))

    def evidence(self, manifest: Manifest) -> Evidence:
        return Evidence(
            pod=decoded(manifest),
            namespace=self.namespace,
            policy=self.rules,
            cluster=self.cluster,
            claims=self.claims,
            node=NODE,
            sources=known(machines.h20()) if self.is_published else Sources(),
        )


drawn = st.builds(
    Drawn,
    claim_pods(),
    namespaces(),
    claim_policies,
    clusters,
    st.sampled_from(["missing", "template", "made", "allocated", "allocated"]),
    st.sampled_from([(0,), (0, 1), (2, 5, 7), (0, 0), (0, 1, 2, 3, 4, 5, 6, 7), ()]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    marks,
)


def every_pod_can_be_explained(it: Drawn) -> None:
    found = it.report(it.later(it.manifest))
    assert found.conclusion.endswith(".")
    assert len(as_text(found).splitlines()) > len(found.findings)
    assert as_json(found).startswith("{")
    assert all(finding.remedy for finding in found.findings if finding.fails)


def of_a_pod_that_admission_prepared_no_step_of_admission_fails(it: Drawn) -> None:
    outcome = admit(decoded(it.manifest), it.namespace, it.rules, it.cluster, claim_specs=CLAIM_SPECS)
    if outcome.kind not in (Kind.PATCH, Kind.DEGRADED) or not outcome.profile or outcome.reason is Reason.OBSERVED:
        return
    prepared = apply_in_place(msgspec.json.decode(to_json(it.manifest)), outcome.operations)
    claims = {f"{entry}-gpus": ResourceClaim(spec=spec) for entry, spec in CLAIM_SPECS.items() if spec}
    templates = {
        f"{entry}-gpus": ResourceClaimTemplate(spec=TemplateSpec(spec=spec))
        for entry, spec in CLAIM_SPECS.items()
        if spec
    }
    evidence = Evidence(
        pod=decoded(prepared),
        namespace=it.namespace,
        policy=it.rules,
        cluster=it.cluster,
        claims=KnownClaims(claims=claims, templates=templates),
    )
    found = {finding.condition: finding for finding in explain(evidence).findings}
    assert found["injected"].verdict == "holds"
    assert found["prepared"].verdict == "holds", found["prepared"]
    assert found["control"].verdict != "fails", found["control"]
    assert found["whole-cards"].verdict == "holds", found["whole-cards"]


def a_pod_is_injected_or_observed_if_bind_says_so(it: Drawn) -> None:
    outcome = admit(decoded(it.manifest), it.namespace, it.rules, it.cluster, claim_specs=CLAIM_SPECS)
    admitted = apply_in_place(msgspec.json.decode(to_json(it.manifest)), outcome.operations)
    manifest = marked(it.later(admitted), it.mark)
    manifest["spec"].pop("nodeName", None)
    pod, claims, settings = decoded(manifest), it.claims, it.rules.claims
    given = given_gpus(pod, claims.claims, claims.pools, settings, node=NODE) if settings.enabled else NOTHING_GIVEN
    begun = begin(pod, Binding(target=Target(NODE)), it.namespace, it.rules, given)
    case = examine(it.evidence(manifest))
    if given.problem is not None:
        return  # explain knows more than bind: templates, and what a count may be served by
    if isinstance(begun, PodToBind) and not begun.is_prepared:
        assert (case.is_observed, case.injected) == (False, False)
    elif isinstance(begun, PodToBind):
        assert (case.is_observed, case.injected) == (begun.is_observed, not begun.is_observed)
    elif begun.reason is BindReason.NOT_INJECTED and case.given.allocation.segments:
        families = {container.request.family for container in case.requests.containers if container.request}
        assert not case.is_observed or len(families) > 1
        assert not case.injected or not may_be_opted_in(pod, it.namespace)


LAWS = (
    every_pod_can_be_explained,
    of_a_pod_that_admission_prepared_no_step_of_admission_fails,
    a_pod_is_injected_or_observed_if_bind_says_so,
)


@given(drawn)
def test_every_law_holds_for_every_pod_with_claims(it: Drawn) -> None:
    before = copy.deepcopy(it.manifest)
    check_laws(LAWS, it)
    assert it.manifest == before
