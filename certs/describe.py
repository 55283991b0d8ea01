"""An overview of certificates for a person: places, dates, faults and coming events."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509

from certs import BundleError
from certs.certificate import TlsBundle, check_bundle, due, encode, fingerprint, leaf, load, names
from certs.objects import AUTHORITIES, CERTIFICATE, CertificateSpec, Material, Registration, Stored, missing
from certs.plan import AUTHORITY, Plan, Situation, Step, decide


@dataclass(frozen=True, slots=True)
class Row:
    """One certificate at one place."""

    place: str
    subject: str
    issuer: str
    names: tuple[str, ...]
    begins: datetime
    ends: datetime
    days_left: float
    fingerprint: str
    """The SHA-256 digest, hexadecimal."""


@dataclass(frozen=True, slots=True)
class Event:
    """A future event and its earliest time."""

    what: str
    when: datetime


@dataclass(frozen=True, slots=True)
class Overview:
    """The certificates, their faults and the coming events of one installation."""

    rows: tuple[Row, ...]
    faults: tuple[str, ...]
    """Faults that the webhook will repair, or that a person must repair."""
    events: tuple[Event, ...]


def describe(
    stored: Stored | None, registration: Registration | None, spec: CertificateSpec, now: datetime
) -> Overview:
    """Describe the Secret and the webhook configuration at the API server's time ``now``."""
    material = stored.material if stored else Material()
    rows = [] if material.serving is None else [_row(CERTIFICATE, leaf(material.serving), now)]
    rows += [_row(AUTHORITIES, each, now) for each in material.authorities]
    faults = list(material.faults) if stored else [str(missing(spec))]
    if registration is None:
        faults.append(f"there is no MutatingWebhookConfiguration {spec.configuration} with webhooks of this Service")
    else:
        for name, bundle in registration.bundles.items():
            if bundle != encode(material.authorities):
                faults.append(f"the caBundle of {name} is not {AUTHORITIES}")
        rows += [_row(f"caBundle of {spec.configuration}", each, now) for each in registration.named]
    faults += [
        f"{each.place}: valid from {each.begins:%Y-%m-%d} to {each.ends:%Y-%m-%d} only"
        for each in rows
        if not each.begins <= now < each.ends
    ]
    return Overview(tuple(rows), tuple(faults), tuple(_events(stored, spec, now)))


def describe_files(bundle: TlsBundle, now: datetime) -> Overview:
    """Describe the pair in files, which another program renews."""
    parts = ((CERTIFICATE, bundle.certificate), (AUTHORITIES, bundle.authority))
    rows = tuple(_row(name, each, now) for name, pem in parts for each in load(pem))
    try:
        check_bundle(bundle, now=now)
    except BundleError as error:
        return Overview(rows, (str(error),), ())
    return Overview(rows, (), ())


def _row(place: str, certificate: x509.Certificate, now: datetime) -> Row:
    return Row(
        place=place,
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        names=tuple(sorted(names(certificate))),
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        days_left=round((certificate.not_valid_after_utc - now).total_seconds() / 86400, 1),
        fingerprint=fingerprint(certificate),
    )


def _events(stored: Stored | None, spec: CertificateSpec, now: datetime) -> Iterable[Event]:
    """Return the leader's coming actions in the order of time; none without a Secret."""
    if stored is None:
        return []
    situation = Situation(material=stored.material, request=stored.request, now=now)
    plan = decide(situation, spec)
    found: list[Event] = []
    if plan.step is not Step.KEEP:
        found.append(Event(_sentence(plan), now))
    elif stored.material.next is not None:
        found.append(Event("issue the serving certificate by the new authority, once API servers know it", now))
    elif len(stored.material.authorities) > 1:
        found.append(Event("end the overlap of the authorities, once replicas had the time to follow", now))
    if stored.material.serving is not None and plan.step is not Step.RENEW:
        found.append(Event("renew the serving certificate", due(leaf(stored.material.serving))))
    if stored.material.authorities and plan.step is not Step.ROTATE:
        found.append(Event(f"begin the rotation of the {AUTHORITY}", due(stored.material.authorities[0])))
    return sorted(found, key=lambda event: event.when)


def _sentence(plan: Plan) -> str:
    words = {Step.RENEW: "renew the serving certificate", Step.ROTATE: f"begin the rotation of the {AUTHORITY}"}
    return f"{words.get(plan.step, plan.step)} now: {plan.why}"
