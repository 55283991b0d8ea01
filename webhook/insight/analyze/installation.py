"""Findings about the installation: registration, order of webhooks, schedulers, certificates, and versions."""

from collections.abc import Iterator, Sequence

from webhook.cluster.redaction.objects import Object, identity
from webhook.cluster.snapshot.certificates import Certificate, Certificates
from webhook.cluster.snapshot.model import Snapshot
from webhook.decisions.cluster_facts import FAULTY_INIT_CONTAINERS, FIRST_HAMI, FIRST_KUBERNETES
from webhook.decisions.configuration import HAMI_RESOURCES
from webhook.insight.analyze.diagnosis import Diagnosis, Holder, error, info, warning
from webhook.insight.explain.reviews import for_the_chart
from webhook.objects.webhook_registration import BINDINGS_WEBHOOK, CONFIGURATION, asked_about
from webhook.words.catalogue import cluster_findings as found
from webhook.words.catalogue.installation import SCHEDULER_CONDITION_UNREAD, SCHEDULER_PASSES_BY, SCHEDULERS_NOT_FOUND
from webhook.words.catalogue.opting import CLUSTER_WITHOUT_HAMI
from webhook.words.catalogue.rights import CERTIFICATES_NOT_KNOWN
from webhook.words.listing import listed

PODS_WEBHOOK = "pods.gpu.topology"
_HAMI_WEBHOOK = "vgpu.hami.io"
_ASKED = {PODS_WEBHOOK: "pods", BINDINGS_WEBHOOK: "Bindings"}
_OVERDUE = 5 / 6
"""The part of its life after which a certificate should have been replaced; ``certs`` does it after two thirds."""
_CLUSTER = Holder("Cluster", "", "cluster")


def unread(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for each part of the cluster that could not be read."""
    for each in snapshot.unread:
        if each.what == "secrets":
            yield info(_CLUSTER, CERTIFICATES_NOT_KNOWN.say(problem=each.problem))
        else:
            yield info(_CLUSTER, found.NOT_READ.say(what=each.what, problem=each.problem))


def registration(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding for each webhook that is not registered at the API server."""
    ours = snapshot.registration
    holder = _ours(snapshot)
    if ours is None:
        if CONFIGURATION in snapshot.read:
            yield error(holder, found.NOT_REGISTERED.say())
        return
    there = {webhook.get("name") for webhook in ours["webhooks"]}
    for webhook, what in _ASKED.items():
        if webhook not in there:
            yield error(holder, found.WEBHOOK_NOT_REGISTERED.say(webhook=webhook, what=what))


def order(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields findings where the API server calls webhooks that change pods in a harmful order.

    HAMi's check of quotas must see the whole cards that this webhook asks for, so this webhook has to come first.
    Webhooks that come later may change pods, so this webhook has to be asked again.
    """
    ours = snapshot.registration
    if ours is None:
        return
    own, holder = snapshot.setting.registration, _ours(snapshot)
    before = [
        identity(each)[1]
        for each in snapshot.registrations
        if identity(each)[1] < own and any(webhook.get("name") == _HAMI_WEBHOOK for webhook in each["webhooks"])
    ]
    if before:
        yield warning(holder, found.ASKED_AFTER_HAMI.say(hami=before[0]))
    after = [
        identity(each)[1]
        for each in snapshot.registrations
        if identity(each)[1] > own and any(map(_changes_pods, each["webhooks"]))
    ]
    for webhook in ours["webhooks"]:
        policy = webhook.get("reinvocationPolicy", "Never")
        if webhook.get("name") == PODS_WEBHOOK and policy != "IfNeeded" and after:
            others = listed(after[:4])
            yield warning(holder, found.NOT_ASKED_AGAIN.say(webhook=PODS_WEBHOOK, policy=policy, others=others))


def _changes_pods(webhook: Object) -> bool:
    return any(
        not {"pods", "*", "*/*"}.isdisjoint(rule.get("resources") or ())
        and not {"CREATE", "*"}.isdisjoint(rule.get("operations") or ())
        and not {"", "*"}.isdisjoint(rule.get("apiGroups") or ())
        for rule in webhook["rules"]
    )


def plain_gpus(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields a finding where a plain device plugin serves the GPUs, so that the webhook leaves their pods alone."""
    if snapshot.facts.overruled_by(snapshot.policy.versions).is_plain(HAMI_RESOURCES.count):
        yield warning(_CLUSTER, CLUSTER_WITHOUT_HAMI.say(resource=HAMI_RESOURCES.count))


def schedulers(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields findings where the API server may not ask the webhook about the Bindings of HAMi's schedulers."""
    ours, holder = snapshot.registration, _ours(snapshot)
    if ours is None or not any(webhook.get("name") == BINDINGS_WEBHOOK for webhook in ours["webhooks"]):
        return
    if not snapshot.schedulers:
        if "Deployment" in snapshot.read and not snapshot.facts.lacks_hami:
            yield info(_CLUSTER, SCHEDULERS_NOT_FOUND.say())
        return
    about = asked_about(ours, snapshot.accounts)
    if about.passed_by:
        passed, wanted = listed(about.passed_by), for_the_chart(about.passed_by)
        yield warning(holder, SCHEDULER_PASSES_BY.say(accounts=passed, schedulers=wanted))
    if about.unclear:
        unclear = listed(about.unclear)
        said = SCHEDULER_CONDITION_UNREAD.say(accounts=unclear, configuration=snapshot.setting.registration)
        yield info(holder, said)


def certificates(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields findings about the authorities that API servers trust, and about the dates of certificates."""
    ours, secrets = _trusted(snapshot), [each for each in snapshot.certificates if each.kind == "Secret"]
    holder = _ours(snapshot)
    for webhook in ours.places if ours else ():
        trusted = {each.fingerprint for each in ours.at(webhook)} if ours else set()
        if not trusted:
            yield error(holder, found.TRUSTS_NO_AUTHORITY.say(webhook=webhook))
            continue
        for secret in secrets:
            issuers = [each.fingerprint for each in secret.at("ca.crt")]
            if issuers and trusted.isdisjoint(issuers):
                where = f"{secret.namespace}/{secret.name}"
                yield error(holder, found.TRUSTS_OTHER_AUTHORITY.say(webhook=webhook, secret=where))
    if ours:
        yield from _dates(snapshot, ours.certificates, holder)
    for secret in secrets:
        yield from _dates(snapshot, secret.certificates, Holder("Secret", secret.namespace, secret.name))


def _dates(snapshot: Snapshot, certificates: Sequence[Certificate], holder: Holder) -> Iterator[Diagnosis]:
    """Yields findings about the dates of certificates; a certificate that stands in several places is judged once."""
    at = snapshot.at
    for each in {each.fingerprint: each for each in certificates}.values():
        if at is None or each.begins is None or each.ends is None:
            continue
        begins, ends = f"{each.begins:%Y-%m-%d}", f"{each.ends:%Y-%m-%d}"
        if not each.begins <= at < each.ends:
            yield error(holder, found.CERTIFICATE_NOT_VALID.say(place=each.place, begins=begins, ends=ends))
        elif at >= each.begins + (each.ends - each.begins) * _OVERDUE:
            yield warning(holder, found.CERTIFICATE_ENDS.say(place=each.place, ends=ends))


def _trusted(snapshot: Snapshot) -> Certificates | None:
    name = snapshot.setting.registration
    return next((each for each in snapshot.certificates if (each.kind, each.name) == (CONFIGURATION, name)), None)


def versions(snapshot: Snapshot) -> Iterator[Diagnosis]:
    """Yields findings about versions of Kubernetes and HAMi with which the webhook does not work well."""
    facts = snapshot.facts.overruled_by(snapshot.policy.versions)
    if facts.kubernetes and facts.kubernetes < FIRST_KUBERNETES:
        yield error(_CLUSTER, found.KUBERNETES_TOO_OLD.say(kubernetes=facts.kubernetes))
    if facts.hami and facts.hami < FIRST_HAMI:
        yield warning(_scheduler(snapshot), found.HAMI_TOO_OLD.say(hami=facts.hami))
    if facts.hami == FAULTY_INIT_CONTAINERS:
        yield warning(_scheduler(snapshot), found.HAMI_GIVES_CARDS_AWAY.say(hami=facts.hami))


def _scheduler(snapshot: Snapshot) -> Holder:
    if not snapshot.schedulers:
        return _CLUSTER
    namespace, name = identity(snapshot.schedulers[0])
    return Holder("Deployment", namespace, name)


def _ours(snapshot: Snapshot) -> Holder:
    return Holder(CONFIGURATION, "", snapshot.setting.registration)
