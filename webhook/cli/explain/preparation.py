"""The pod of a template as the webhook would prepare it, because a template shows nothing that admission does."""

import json
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


def prepared_pod(made: TemplatePod, snapshot: Snapshot) -> KnownPod | None:
    """Return the pod after admission; None if the webhook would leave it alone or refuse it, or if it gets claims.

    A namespace that is not known counts as one that has opted in and has no permissions.

    Raises:
        ManifestError: a field has another type than in a pod.
    """
    pod = decode_pod(to_json(made.document, made.source), made.source)
    policy = policy_for(pod, snapshot.policy, is_configured=snapshot.setting.is_configured)
    if policy.claims.enabled and pod.has_claims:
        return None
    namespace = snapshot.namespace(made.known.namespace)
    if not namespace.known:
        namespace = Namespace(namespace.name, {names.INJECTION: "enabled"})
    outcome = admit(pod, namespace, policy, snapshot.facts, nodes=snapshot.sources)
    if not outcome.allowed or not outcome.operations:
        return None
    patch = json.loads(encode_patch(outcome.operations))
    return pod_of(jsonpatch.apply_patch(made.document, patch))


def with_templates(read: ReadSnapshot) -> Snapshot:
    """Return the snapshot with a pod for each template of the manifests, as the webhook would prepare it.

    Raises:
        ManifestError: a template has a field of another type than in a pod.
    """
    made = (_of_workload(each) for each in template_pods(read.templates) if each.template.asks_for_gpus)
    found = [prepared_pod(each, read.snapshot) or each.known for each in made]
    return msgspec.structs.replace(read.snapshot, pods=(*read.snapshot.pods, *found))


def _of_workload(made: TemplatePod) -> TemplatePod:
    """Return the pod with its workload as its owner."""
    owner = made.template.owner
    reference = {"apiVersion": "", "kind": owner.kind, "name": owner.name, "uid": "", "controller": True}
    metadata: dict[str, Any] = made.document["metadata"] | {"ownerReferences": [reference]}
    document = {**made.document, "metadata": metadata}
    return made._replace(known=pod_of(document), document=document)
