"""The resource claims of a pod, read for one review: their requests at admission, their allocations at binding."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from time import perf_counter_ns

from webhook.cluster.state import Claims
from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import resolve_options
from webhook.decisions.request.settings import disables_control
from webhook.decisions.request.skip_reasons import early_skip_reason
from webhook.objects.claims import ClaimSpec, ResourceClaim, decode_claim
from webhook.objects.pod import Container, Namespace, Pod, PodSpec, is_present
from webhook.programs.server.claim_specs import Kind, SpecSource, read_spec, spec_sources
from webhook.programs.server.counts import Counts
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.errors import ClaimsUnreadable, FormatError


class ClaimReading:
    """The reads of claims for one review, all at the same time.

    Args:
        claims: Reads claims and templates.
        deadline: The end of the reads, on the clock of the event loop.
        counts: Counts failed and refused reads.
    """

    def __init__(self, claims: Claims, deadline: float, counts: Counts) -> None:
        self._claims = claims
        self._deadline = deadline
        self._counts = counts
        self.waited = 0
        """Nanoseconds that the reads took."""

    async def specs(self, namespace: str, sources: Mapping[str, SpecSource]) -> dict[str, ClaimSpec | None]:
        """Return the specs of claims, by entries of ``spec.resourceClaims``; ``None`` where a spec cannot be read."""
        wanted = list(dict.fromkeys(sources.values()))
        answers = await self._all(self._read(source.kind, namespace, source.name) for source in wanted)
        found = {
            source: None if isinstance(answer, ClaimsUnreadable) else read_spec(answer, source)
            for source, answer in zip(wanted, answers, strict=True)
        }
        return {entry: found[source] for entry, source in sources.items()}

    async def claims(self, namespace: str, wanted: Iterable[str]) -> dict[str, ResourceClaim]:
        """Return the ResourceClaims of these names, without those that do not exist.

        Raises:
            ClaimsUnreadable: a claim cannot be read, or not in time.
        """
        ordered = list(dict.fromkeys(wanted))
        answers = await self._all(self._read("claim", namespace, name) for name in ordered)
        found = {}
        for name, answer in zip(ordered, answers, strict=True):
            if isinstance(answer, ClaimsUnreadable):
                raise answer
            if answer is not None:
                found[name] = _decoded(answer, f"ResourceClaim {namespace}/{name}")
        return found

    async def _all(
        self, reads: Iterable[Awaitable[bytes | ClaimsUnreadable | None]]
    ) -> list[bytes | ClaimsUnreadable | None]:
        started = perf_counter_ns()
        try:
            return await asyncio.gather(*reads)
        finally:
            self.waited += perf_counter_ns() - started

    async def _read(self, kind: Kind, namespace: str, name: str) -> bytes | ClaimsUnreadable | None:
        read = self._claims.claim if kind == "claim" else self._claims.template
        try:
            return await read(namespace, name, deadline=self._deadline)
        except ClaimsUnreadable as error:
            self._counts.failed_claim_reads[kind] += 1
            return error


def specs_to_read(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> Mapping[str, SpecSource]:
    """Return the objects with a pod's claims, by entries of ``spec.resourceClaims``; empty if no decision needs them.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if not policy.claims.enabled or not (pod.spec and is_present(pod.spec.resource_claims_json)):
        return {}
    if early_skip_reason(pod, namespace) or pod.annotations.get(names.INJECT) == "false":
        return {}
    return spec_sources(pod)


def may_be_given(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> bool:
    """Return whether a pod may have been injected or is observed, and may have GPUs by claims.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    if not policy.claims.enabled or not pod.has_claims:
        return False
    return _is_marked(pod) or _may_be_observed(pod, namespace, policy)


def _is_marked(pod: Pod) -> bool:
    """Return whether a container has a variable that admission writes into each container with GPUs.

    ``bind/injection.py`` looks closer.
    """
    spec = pod.spec or PodSpec()
    containers: list[Container] = [*(spec.containers or ()), *(spec.init_containers or ())]
    return any(
        disables_control(env) or any(variable.name == names.REMAP_PROFILE for variable in env)
        for env in (container.env or () for container in containers)
    )


def _may_be_observed(pod: Pod, namespace: Namespace, policy: AdmitPolicy) -> bool:
    try:
        return resolve_options(policy.defaults, pod, namespace).profile is Profile.OBSERVE
    except FormatError:
        return False


def _decoded(document: bytes, source: str) -> ResourceClaim:
    try:
        return decode_claim(document, source)
    except FormatError as error:
        raise ClaimsUnreadable(str(error)) from None
