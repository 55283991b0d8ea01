"""ResourceClaims, templates and ResourceSlices from manifests, in place of a cluster."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from webhook.decisions.claims.evidence import ClusterClaims, KnownClaims
from webhook.decisions.claims.slices import Pools, slice_part
from webhook.decisions.configuration import ClaimSettings
from webhook.objects.claims import (
    CLAIM,
    SLICE,
    TEMPLATE,
    VERSION,
    ClaimSpec,
    ResourceSlice,
    decode_claim,
    decode_slice,
    decode_template,
)
from webhook.objects.manifest.pods import to_json
from webhook.objects.manifest.templates import ManifestObject, find_objects
from webhook.objects.pod import Pod
from webhook.words.errors import FormatError
from webhook.words.names import DEFAULT_NAMESPACE

_GROUP = "resource.k8s.io/"
_KINDS = (CLAIM, TEMPLATE, SLICE)
_NOWHERE = "no file holds it"

_Key = tuple[str, str]


class ClaimObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The objects about claims in manifests. Of two objects with one name the later counts."""

    claims: Mapping[_Key, bytes] = MappingProxyType({})
    """The claims as JSON, by namespace and name."""
    templates: Mapping[_Key, bytes] = MappingProxyType({})
    """The templates as JSON, by namespace and name."""
    slices: tuple[ResourceSlice, ...] = ()

    def joined(self, others: "ClaimObjects") -> "ClaimObjects":
        """Merge these objects with others. Of two objects with one name the other one counts."""
        return ClaimObjects(
            claims={**self.claims, **others.claims},
            templates={**self.templates, **others.templates},
            slices=self.slices + others.slices,
        )

    def pools(self, settings: ClaimSettings) -> Pools:
        """Return the devices that the slices publish."""
        return Pools(part for each in self.slices if (part := slice_part(each, settings)))

    def known(self, pod: Pod, namespace: str, settings: ClaimSettings) -> KnownClaims:
        """Return the known claims of a pod.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        return self._with(self.pools(settings)).of(pod, namespace)

    def specs(self, pod: Pod, namespace: str) -> dict[str, ClaimSpec | None]:
        """Return the requests of a pod's claims, as :meth:`KnownClaims.specs` has them.

        Raises:
            MalformedPod: a field has another type than in a pod.
        """
        return self._with(Pools()).of(pod, namespace).specs(pod)

    def _with(self, pools: Pools) -> ClusterClaims:
        problems = {CLAIM: _NOWHERE, TEMPLATE: _NOWHERE} | ({} if self.slices else {SLICE: "no file holds any"})
        return ClusterClaims(claims=self.claims, templates=self.templates, pools=pools, problems=problems)


NO_OBJECTS = ClaimObjects()


def claim_objects(documents: Iterable[tuple[Any, str]], default_namespace: str = DEFAULT_NAMESPACE) -> ClaimObjects:
    """Read the objects about claims among documents; other documents are ignored.

    Args:
        documents: Plain values, each with its name in messages.
        default_namespace: The namespace of objects that name none.

    Raises:
        FormatError: an object has another shape, or an old version of the API.
        ManifestError: a document contains itself.
    """
    claims, templates, slices = dict[_Key, bytes](), dict[_Key, bytes](), list[ResourceSlice]()
    for document, source in documents:
        for found in find_objects(document):
            if not _is_about_claims(found):
                continue
            where = f"{source}: {found.kind} {found.name}"
            _check_version(found, where)
            text = to_json(found.value, where)
            if found.kind == SLICE:
                slices.append(decode_slice(text, where))
                continue
            metadata = (decode_claim if found.kind == CLAIM else decode_template)(text, where).metadata
            into = claims if found.kind == CLAIM else templates
            into[metadata.namespace or default_namespace, metadata.name] = text
    return ClaimObjects(claims=claims, templates=templates, slices=tuple(slices))


def is_about_claims(document: Any) -> bool:
    """Return whether a document holds only objects about claims."""
    return all(map(_is_about_claims, find_objects(document)))


def _is_about_claims(found: ManifestObject) -> bool:
    return found.kind in _KINDS and _version(found).startswith(_GROUP)


def _version(found: ManifestObject) -> str:
    version = found.value.get("apiVersion") if isinstance(found.value, Mapping) else None
    return version if isinstance(version, str) else ""


def _check_version(found: ManifestObject, where: str) -> None:
    version = _version(found)
    if version != VERSION:
        fix = f"Write it for {VERSION}, which Kubernetes 1.34 and later serve"
        raise FormatError(f"{where}: apiVersion", expected=VERSION, found=version, fix=fix)
