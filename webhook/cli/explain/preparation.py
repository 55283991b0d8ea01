"""A pod of a manifest as the webhook would prepare it, because a manifest shows nothing that admission does."""

import json
from collections.abc import Mapping
from typing import Any

import jsonpatch
import msgspec

from webhook.cluster.snapshot.documents import ReadSnapshot
from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.cluster.snapshot.template_pods import TemplatePod, pod_of, template_pods
from webhook.decisions.admit.admission import admit
from webhook.insight.explain.evidence import policy_for
from webhook.objects.manifest.pods import decode_pod, to_json
from webhook.objects.pod import Namespace
from webhook.objects.review import encode_patch
from webhook.words import names


def prepared_pod(known: KnownPod, snapshot: Snapshot, document: Mapping[str, Any] | None = None) -> KnownPod | None:
    """Return the pod after admission; None if there is nothing to prepare.

    That is a pod that exists or was prepared, that the webhook would leave alone or refuse, or that gets claims. A
    namespace that is not known counts as one that has opted in and has no permissions.

    Args:
        known: The pod.
        snapshot: Its cluster.
        document: The whole pod as its controller would send it; None for what is kept of it.

    Raises:
        ManifestError: a field has another type than in a pod.
    """
    if known.pod.exists or names.INJECTED in known.pod.annotations:
        return None
    found = document or json.loads(known.document)
    pod = decode_pod(to_json(found), f"pod {known.namespace}/{known.name}")
    policy = policy_for(pod, snapshot.policy, is_configured=snapshot.setting.is_configured)
    if policy.claims.enabled and pod.has_claims:
        return None
    namespace = snapshot.namespace(known.namespace)
    if not namespace.known:
        namespace = Namespace(namespace.name, {names.INJECTION: "enabled"})
    outcome = admit(pod, namespace, policy, snapshot.facts, nodes=snapshot.sources)
    if not outcome.allowed or not outcome.operations:
        return None
    patch = json.loads(encode_patch(outcome.operations))
    return pod_of(jsonpatch.apply_patch(found, patch))


def with_templates(read: ReadSnapshot) -> Snapshot:
    """Return the snapshot with the pods that the manifests would make, as the webhook would prepare them.

    Raises:
        ManifestError: a template has a field of another type than in a pod.
    """
    given = {id(each) for each in read.given}
    pods = [(prepared_pod(each, read.snapshot) if id(each) in given else None) or each for each in read.snapshot.pods]
    made = (_of_workload(each) for each in template_pods(read.templates) if each.template.asks_for_gpus)
    pods += [prepared_pod(each.known, read.snapshot, each.document) or each.known for each in made]
    return msgspec.structs.replace(read.snapshot, pods=tuple(pods))


def _of_workload(made: TemplatePod) -> TemplatePod:
    """Return the pod with its workload as its owner."""
    owner = made.template.owner
    reference = {"apiVersion": "", "kind": owner.kind, "name": owner.name, "uid": "", "controller": True}
    metadata: dict[str, Any] = made.document["metadata"] | {"ownerReferences": [reference]}
    document = {**made.document, "metadata": metadata}
    return made._replace(known=pod_of(document), document=document)
