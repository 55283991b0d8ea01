"""The decisions about certificates, one at a time."""

import base64
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from certs import SecretError
from certs.certificate import (
    Authority,
    TlsBundle,
    authority_of,
    due,
    encode,
    fingerprint,
    issue_serving,
    leaf,
    load,
    load_authorities,
    names,
    new_authority,
)
from certs.describe import describe
from certs.objects import (
    Material,
    read_material,
    read_registration,
    read_secret,
    repair,
    write_material,
    written_secret,
)
from certs.plan import Plan, Situation, Steady, Step, carry_out, choose, decide, observe
from tests.certs.world import BEGIN, SPEC

DAY = timedelta(days=1)
A, B, C = (new_authority(now=BEGIN, lifetime=730 * DAY) for _ in range(3))


def pair(authority: Authority, now: datetime = BEGIN) -> TlsBundle:
    return issue_serving(SPEC.names, authority, now=now, lifetime=90 * DAY)


OF_A, OF_B = pair(A), pair(B)
STEADY = Material((A.certificate,), A.key, OF_A)
TURNING = Material((A.certificate, B.certificate), A.key, OF_A, B)
LATE = Material((B.certificate, A.certificate), B.key, OF_B)


SHORT = new_authority(now=BEGIN, lifetime=DAY)
ENDED = Material((SHORT.certificate, B.certificate), SHORT.key, None, B)


def situation(material: Material | None, **fields: Any) -> Situation:
    return Situation(material=material, **({"now": BEGIN + DAY} | fields))


def test_a_serving_certificate_is_for_the_names_of_the_service() -> None:
    assert names(leaf(OF_A)) == {"webhook", "webhook.gpu", "webhook.gpu.svc", "webhook.gpu.svc.cluster.local"}


def test_a_serving_certificate_ends_with_its_authority_at_the_latest() -> None:
    late = pair(A, BEGIN + 700 * DAY)
    assert leaf(late).not_valid_after_utc == BEGIN + 730 * DAY


@pytest.mark.parametrize(
    ("found", "step", "why"),
    [
        (situation(None), Step.ROTATE, "there is no Secret"),
        (situation(STEADY), Step.KEEP, ""),
        (situation(STEADY, now=BEGIN + timedelta(days=59)), Step.KEEP, ""),
        (
            situation(STEADY, now=BEGIN + 60 * DAY),
            Step.RENEW,
            "two thirds of the certificate's life are over",
        ),
        (situation(STEADY, now=BEGIN + 486 * DAY), Step.RENEW, "valid from 2026-03-01 11:50 to 2026-05-30 12:00 only"),
        (situation(STEADY, now=BEGIN + 487 * DAY), Step.ROTATE, "two thirds of the authority's life are over"),
        (situation(STEADY, now=BEGIN + 730 * DAY), Step.ROTATE, "valid from 2026-03-01 11:50 to 2028-02-29 12:00 only"),
        (situation(STEADY, now=BEGIN - DAY), Step.ROTATE, "the authority is valid from 2026-03-01 11:50"),
        (situation(STEADY, request="serving"), Step.RENEW, "it was asked for"),
        (situation(STEADY, request="authority"), Step.ROTATE, "it was asked for"),
        (situation(STEADY, request="nonsense"), Step.KEEP, ""),
        (situation(replace(STEADY, authority_key=b"")), Step.ROTATE, "no authority can issue"),
        (situation(replace(STEADY, serving=None)), Step.RENEW, "no serving certificate"),
        (situation(STEADY, in_hand=OF_B), Step.ROTATE, "does not have the authority whose certificate is served"),
        (situation(TURNING, in_hand=pair(C)), Step.ROTATE, "does not have the authority whose certificate is served"),
        (situation(STEADY, in_hand=OF_B, now=BEGIN + 91 * DAY), Step.RENEW, "the serving certificate is valid"),
        (situation(STEADY, named=(C.certificate,)), Step.KEEP, ""),
        (situation(TURNING), Step.KEEP, ""),
        (situation(TURNING, is_over=True), Step.KEEP, ""),
        (situation(TURNING, is_settled=True), Step.SWITCH, "API servers know the new authority"),
        (situation(replace(TURNING, authority_key=b""), is_settled=True), Step.SWITCH, "API servers know"),
        (situation(replace(TURNING, authority_key=b"", serving=None)), Step.KEEP, ""),
        (situation(replace(TURNING, serving=None)), Step.RENEW, "no serving certificate"),
        (situation(TURNING, request="authority"), Step.KEEP, ""),
        (situation(TURNING, request="serving"), Step.RENEW, "it was asked for"),
        (situation(TURNING, now=BEGIN + 487 * DAY, is_settled=True), Step.SWITCH, "API servers know"),
        (situation(ENDED, now=BEGIN + DAY), Step.SWITCH, "API servers know"),
        (situation(LATE), Step.KEEP, ""),
        (situation(LATE, is_over=True), Step.FINISH, "the overlap is over"),
        (situation(LATE, is_over=True, in_hand=OF_A), Step.KEEP, ""),
        (situation(LATE, request="authority"), Step.ROTATE, "it was asked for"),
    ],
)
def test_the_next_step(found: Situation, step: Step, why: str) -> None:
    plan = decide(found, SPEC)
    assert plan.step is step
    assert why in plan.why
    assert bool(why) == bool(plan.why)


def test_other_names_mean_another_certificate() -> None:
    spec = replace(SPEC, additional_names=("10.0.0.1", "0:0:0:0:0:0:0:1", "webhook.example.org"))
    plan = decide(situation(STEADY), spec)
    assert plan == Plan(Step.RENEW, "the serving certificate is not for 10.0.0.1, ::1, webhook.example.org")
    renewed = carry_out(plan, situation(STEADY), spec)
    assert decide(situation(renewed), spec).step is Step.KEEP


def test_a_rotation_keeps_what_is_served_until_it_has_ended() -> None:
    start = situation(STEADY, request="authority", in_hand=OF_A)
    turning = carry_out(decide(start, SPEC), start, SPEC)
    assert turning.next is not None
    new = turning.next
    assert turning == Material((A.certificate, new.certificate), A.key, OF_A, new)
    settled = situation(turning, is_settled=True, in_hand=OF_A)
    switched = carry_out(decide(settled, SPEC), settled, SPEC)
    assert switched.serving is not None
    assert authority_of(switched.serving) == new.certificate
    assert switched == Material((new.certificate, A.certificate), new.key, switched.serving)
    over = situation(switched, is_over=True, in_hand=switched.serving)
    assert carry_out(decide(over, SPEC), over, SPEC) == Material((new.certificate,), new.key, switched.serving)


@pytest.mark.parametrize("material", [None, Material(), Material((C.certificate,))])
def test_a_lost_secret_is_made_from_what_is_served_and_what_is_trusted(material: Material | None) -> None:
    lost = situation(material, in_hand=OF_A, named=(C.certificate, B.certificate))
    made = carry_out(decide(lost, SPEC), lost, SPEC)
    assert made.next is not None
    assert made.authorities[:2] == (A.certificate, made.next.certificate)
    assert set(made.authorities[2:]) == {B.certificate, C.certificate}
    assert (made.serving, made.authority_key) == (OF_A, b"")


def test_a_lost_secret_gives_nothing_to_serve_while_others_may_serve_what_is_trusted() -> None:
    lost = situation(None, named=(C.certificate,))
    made = carry_out(decide(lost, SPEC), lost, SPEC)
    assert made.next is not None
    assert (made.authorities, made.serving) == ((C.certificate, made.next.certificate), None)


def test_where_nothing_is_trusted_a_new_authority_issues_at_once() -> None:
    first = situation(None)
    made = carry_out(decide(first, SPEC), first, SPEC)
    assert made.serving is not None
    assert made.authorities == (authority_of(made.serving),)
    assert made.next is None


def test_a_secret_from_a_backup_does_not_replace_what_is_served() -> None:
    restored = situation(STEADY, in_hand=OF_B, named=(B.certificate,))
    made = carry_out(decide(restored, SPEC), restored, SPEC)
    assert made.next is not None
    assert made.authorities == (B.certificate, made.next.certificate, A.certificate)
    assert (made.serving, made.authority_key) == (OF_B, b"")


def test_what_has_ended_is_not_kept() -> None:
    much_later = situation(STEADY, now=BEGIN + 731 * DAY, in_hand=OF_A)
    made = carry_out(decide(much_later, SPEC), much_later, SPEC)
    assert len(made.authorities) == 1
    assert made.next is None


@pytest.mark.parametrize("material", [STEADY, TURNING, LATE])
def test_what_is_written_is_what_is_read(material: Material) -> None:
    assert read_material(write_material(material)) == material


@pytest.mark.parametrize(
    ("data", "faults"),
    [
        ({}, ["the Secret is empty"]),
        ({"ca.crt": b"\xff", "tls.crt": b"", "tls.key": b""}, ["ca.crt", "tls.crt"]),
        (write_material(STEADY) | {"ca.key": B.key}, ["ca.key"]),
        (write_material(STEADY) | {"tls.key": OF_B.key}, ["tls.key"]),
        (write_material(STEADY) | {"tls.crt": OF_B.certificate, "tls.key": OF_B.key}, ["tls.crt"]),
        (write_material(STEADY) | {"ca.crt": OF_A.certificate}, ["ca.crt", "tls.crt"]),
        (write_material(TURNING) | {"next.key": b"x"}, ["next.key"]),
        (write_material(TURNING) | {"next.key": A.key}, ["next.key"]),
        (write_material(TURNING) | {"ca.key": b""}, []),
    ],
)
def test_what_is_left_of_a_secret_is_named(data: dict[str, bytes], faults: list[str]) -> None:
    found = read_material(data)
    assert [fault.split(":")[0] for fault in found.faults] == faults
    assert not any("PRIVATE" in fault for fault in found.faults)


def test_a_secret_of_another_type_is_refused_with_what_to_do() -> None:
    secret = {"metadata": {"resourceVersion": "1"}, "type": "kubernetes.io/tls"}
    with pytest.raises(
        SecretError,
        match=r"^Secret gpu/webhook-tls: expected type example\.org/certificates, found one of type kubernetes\.io/tls"
        r"\. Mount it and give --tls DIR",
    ):
        read_secret(secret, SPEC)


def test_what_others_wrote_beside_the_values_of_a_secret_stays() -> None:
    metadata = {"resourceVersion": "7", "labels": {"a": "b"}, "annotations": {"c": "d", SPEC.rotate: "authority"}}
    stored = read_secret({"metadata": metadata, "type": SPEC.secret_type, "data": {"x": "!"}, "kind": "Secret"}, SPEC)
    assert stored is not None
    assert stored.request == "authority"
    manifest = written_secret(stored, STEADY, SPEC, request="")
    assert manifest["metadata"] == {"resourceVersion": "7", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert base64.b64decode(manifest["data"]["ca.crt"]) == encode([A.certificate])


SETTLED = Steady({fingerprint(each.certificate): 0.0 for each in (A, B)}, 120.0)
FRESH = Steady({fingerprint(A.certificate): 0.0, fingerprint(B.certificate): 1.0}, 120.0)
ONLY_A = Steady({fingerprint(A.certificate): 0.0}, 500.0)
ONLY_B = Steady({fingerprint(B.certificate): 499.0}, 500.0)
NOBODY = Steady({}, 500.0)


@pytest.mark.parametrize(
    ("in_hand", "offered", "trust", "chosen"),
    [
        pytest.param(None, OF_A, ONLY_A, OF_A, id="begin"),
        pytest.param(None, OF_A, None, OF_A, id="begin without a configuration"),
        pytest.param(None, OF_A, NOBODY, None, id="begin later: nobody trusts it yet"),
        pytest.param(None, None, ONLY_A, None, id="begin later: there is nothing"),
        pytest.param(None, OF_B, FRESH, OF_B, id="begin with the new one"),
        pytest.param(OF_A, OF_B, FRESH, OF_A, id="wait until it has settled"),
        pytest.param(OF_A, OF_B, SETTLED, OF_B, id="follow"),
        pytest.param(OF_A, OF_B, NOBODY, OF_A, id="stay while the bundle is empty"),
        pytest.param(OF_A, OF_B, ONLY_A, OF_A, id="stay while only the old one is trusted"),
        pytest.param(OF_A, OF_B, ONLY_B, OF_B, id="follow at once: the old one is not trusted any more"),
        pytest.param(OF_A, None, ONLY_A, OF_A, id="go on without a Secret"),
        pytest.param(pair(A, BEGIN - 90 * DAY), OF_B, FRESH, OF_B, id="follow at once: the old one has ended"),
        pytest.param(OF_A, pair(B, BEGIN - 90 * DAY), SETTLED, OF_A, id="stay: the new one has ended"),
    ],
)
def test_what_a_replica_serves(
    in_hand: TlsBundle | None, offered: TlsBundle | None, trust: Steady | None, chosen: TlsBundle | None
) -> None:
    assert choose(in_hand, offered, trust, BEGIN + DAY, settle=120) == chosen


def test_a_renewed_certificate_of_the_same_authority_is_served_at_once() -> None:
    renewed = pair(A)
    assert choose(OF_A, renewed, NOBODY, BEGIN + DAY, settle=120) == renewed


def configuration(*bundles: bytes | None) -> dict[str, Any]:
    webhooks = [
        {
            "name": str(number),
            "clientConfig": {"service": {"namespace": "gpu", "name": "webhook"}}
            | ({} if bundle is None else {"caBundle": base64.b64encode(bundle).decode()}),
        }
        for number, bundle in enumerate(bundles)
    ]
    return {"metadata": {"resourceVersion": "5"}, "webhooks": webhooks}


def test_an_authority_counts_when_every_webhook_of_ours_names_it() -> None:
    both = encode([A.certificate, B.certificate])
    found = read_registration(configuration(both, encode([B.certificate])), SPEC)
    assert found is not None
    assert found.trusted == {B.certificate}
    assert set(found.named) == {A.certificate, B.certificate}
    half = read_registration(configuration(both, None), SPEC)
    assert half is not None
    assert half.trusted == frozenset()
    broken = read_registration(
        {"metadata": {}, "webhooks": [{"name": "x", "clientConfig": {"url": "https://x", "caBundle": "%"}}]}, SPEC
    )
    assert broken is not None
    assert broken.bundles == {"x": b""}


def test_webhooks_of_others_are_not_ours() -> None:
    other = {"name": "x", "clientConfig": {"service": {"namespace": "other", "name": "webhook"}}}
    assert read_registration({"metadata": {}, "webhooks": [other]}, SPEC) is None
    assert read_registration({"metadata": {}}, SPEC) is None


def test_only_looks_without_a_gap_count() -> None:
    a, nothing = (A.certificate,), ()
    steady = observe(None, a, 0, gap=120)
    assert steady.seconds(A.certificate) == 0
    for now in (60, 119):
        steady = observe(steady, a, now, gap=120)
        assert steady.seconds(A.certificate) == now
    assert steady.seconds(B.certificate) == 0
    assert observe(steady, a, 239, gap=120).seconds(A.certificate) == 239
    assert observe(steady, a, 240, gap=120).seconds(A.certificate) == 0
    interrupted = observe(observe(steady, nothing, 121, gap=120), a, 122, gap=120)
    assert observe(interrupted, a, 132, gap=120).seconds(A.certificate) == 10


def test_only_wrong_bundles_are_written_and_only_over_what_was_read() -> None:
    right = encode([A.certificate])
    found = read_registration(configuration(right, b"", right + encode([C.certificate])), SPEC)
    assert found is not None
    patch = repair(found, right)
    assert patch is not None
    assert patch["metadata"] == {"resourceVersion": "5"}
    assert [each["name"] for each in patch["webhooks"]] == ["1", "2"]
    complete = read_registration(configuration(right), SPEC)
    assert complete is not None
    assert repair(complete, right) is None


def test_what_a_person_is_shown() -> None:
    stored = read_secret(
        {
            "metadata": {"resourceVersion": "1"},
            "type": SPEC.secret_type,
            "data": {key: base64.b64encode(value).decode() for key, value in write_material(TURNING).items()},
        },
        SPEC,
    )
    found = describe(stored, read_registration(configuration(b""), SPEC), SPEC, BEGIN + 10 * DAY)
    assert [each.place for each in found.rows] == ["tls.crt", "ca.crt", "ca.crt"]
    assert [each.days_left for each in found.rows] == [80.0, 720.0, 720.0]
    assert found.faults == ("the caBundle of 0 is not ca.crt",)
    assert [each.what for each in found.events] == [
        "issue the serving certificate by the new authority, once API servers know it",
        "renew the serving certificate",
        "begin the rotation of the authority",
    ]
    assert found.events[1].when == due(leaf(OF_A))


def test_bundles_are_read_leniently() -> None:
    both = encode([A.certificate, B.certificate])
    assert load(b"-----BEGIN CERTIFICATE-----\n" * 3 + both) == (A.certificate, B.certificate)
    assert load(b"junk" + both + both + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") == (
        A.certificate,
        B.certificate,
    )
    assert load_authorities(OF_A.certificate + both) == (A.certificate, B.certificate)
