"""The pod of a template as the webhook would prepare it, because a template shows nothing that admission does."""

import json

import jsonpatch

from webhook.cluster.snapshot.model import KnownPod, Snapshot
from webhook.cluster.snapshot.template_pods import TemplatePod, pod_of
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
