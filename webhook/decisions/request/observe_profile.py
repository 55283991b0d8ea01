"""Profile ``observe``: pods that are only observed, and the profile with which they are compared."""

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options, parse_option, resolve_options
from webhook.decisions.request.resources import PodRequests
from webhook.decisions.request.selection import select_containers
from webhook.decisions.request.skip_reasons import early_skip_reason, skip_reason
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.choices import Profile
from webhook.words.errors import FormatError
from webhook.words.outcome import Refused


def profile_if_observed(pod: Pod, namespace: Namespace, requests: PodRequests, policy: AdmitPolicy) -> Profile | None:
    """Returns the profile that admission would compare the pod with now; ``None`` if it would not observe the pod.

    Raises:
        MalformedPod: a field has another type than in a pod.
    """
    try:
        if early_skip_reason(pod, namespace) or skip_reason(pod, namespace, requests, policy):
            return None
        options = resolve_options(policy.defaults, pod, namespace)
        selected = select_containers(requests.containers, options, pod, namespace)
        is_observed = bool(selected) and options.profile is Profile.OBSERVE
        return observed_profile(namespace, policy.defaults) if is_observed else None
    except (FormatError, Refused):
        return None


def observed_profile(namespace: Namespace, defaults: Options) -> Profile:
    """Returns the profile that the pod would get if its own profile were not ``observe``.

    Raises:
        FormatError: the namespace's annotation does not parse.
    """
    text = namespace.annotations.get(names.PROFILE, Profile.OBSERVE)
    source = f"annotation {names.PROFILE} on namespace {namespace.name}"
    for profile in (Profile(parse_option("profile", text, source=source)), defaults.profile):
        if profile is not Profile.OBSERVE:
            return profile
    return Profile.EXCLUSIVE
