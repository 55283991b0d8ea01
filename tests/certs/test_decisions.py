"""The decisions about certificates, one at a time."""

import base64
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from certs.bundle import TlsBundle
from certs.certificate import due, encode, fingerprint, load, load_authorities, names
from certs.choice import choose
from certs.describe import describe
from certs.election import lease_spec, look, may_lead
from certs.errors import ForeignSecret
from certs.issue import Authority, issue_serving, new_authority
from certs.material import Material, leaf, read_material, write_material
from certs.plan import Plan, Situation, Step, carry_out, decide
from certs.replicas import Identity, muster, report
from certs.stored import read_stored, write
from certs.trust import Trust, observe, read_registration, repair
from tests.certs.world import BEGIN, MARKS, SPEC

DAY = timedelta(days=1)
A, B, C = (new_authority(now=BEGIN, lifetime=730 * DAY) for _ in range(3))


def pair(authority: Authority, now: datetime = BEGIN) -> TlsBundle:
    return issue_serving(SPEC.names, authority, now=now, lifetime=90 * DAY)


OF_A, OF_B = pair(A), pair(B)
STEADY = Material((A.certificate,), A.key, OF_A)
TURNING = Material((B.certificate, A.certificate), B.key, OF_B, OF_A)
LATE = Material((B.certificate, A.certificate), B.key, OF_B)


def situation(material: Material | None, **fields: Any) -> Situation:
    return Situation(material=material, **({"now": BEGIN + DAY} | fields))


def served(**by_pod: Authority) -> dict[str, frozenset[str]]:
    return {pod: frozenset((fingerprint(each.certificate),)) for pod, each in by_pod.items()}


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
        (situation(STEADY, in_hand=OF_B), Step.ADOPT, "still served: "),
        (situation(TURNING), Step.KEEP, "it is not known what the replicas serve"),
        (situation(TURNING, served=served(x=A, y=B)), Step.KEEP, "not yet on the new authority: x"),
        (situation(TURNING, served={"x": frozenset()}), Step.KEEP, "not yet on the new authority: x"),
        (situation(TURNING, served=served(x=B, y=B)), Step.RETIRE, "every replica serves"),
        (situation(LATE, served=served(x=B, y=A)), Step.KEEP, "not yet on the new authority: y"),
        (situation(LATE, served=served(x=B, y=B)), Step.FINISH, "every replica serves"),
        (situation(TURNING, request="authority"), Step.ROTATE, "it was asked for"),
        (situation(STEADY, served=served(x=C), trusted=(C.certificate,)), Step.ADOPT, "still served: "),
        (situation(STEADY, served=served(x=A), trusted=(C.certificate,)), Step.KEEP, ""),
        (situation(STEADY, served=served(x=C), trusted=()), Step.KEEP, ""),
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


def test_a_rotation_keeps_what_is_served_until_nobody_needs_it() -> None:
    start = situation(STEADY, request="authority", in_hand=OF_A)
    turned = carry_out(decide(start, SPEC), start, SPEC)
    assert turned.authorities[1:] == (A.certificate,)
    assert turned.previous == OF_A
    assert turned.serving is not None
    assert turned.signer is not None
    new = turned.signer
    retired = carry_out(Plan(Step.RETIRE, ""), situation(turned), SPEC)
    assert (retired.authorities, retired.previous, retired.serving) == (turned.authorities, None, turned.serving)
    finished = carry_out(Plan(Step.FINISH, ""), situation(retired), SPEC)
    assert finished == Material((new.certificate,), new.key, turned.serving)


def test_a_lost_secret_is_made_from_what_is_still_served() -> None:
    lost = situation(None, in_hand=OF_A, served=served(x=C), trusted=(C.certificate, B.certificate))
    made = carry_out(decide(lost, SPEC), lost, SPEC)
    assert set(made.authorities[1:]) == {A.certificate, C.certificate}
    assert made.previous == OF_A


def test_what_has_ended_is_not_kept() -> None:
    much_later = situation(STEADY, now=BEGIN + 731 * DAY, in_hand=OF_A)
    made = carry_out(decide(much_later, SPEC), much_later, SPEC)
    assert len(made.authorities) == 1
    assert made.previous is None


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
        (write_material(TURNING) | {"previous.key": b"x"}, ["previous.key"]),
    ],
)
def test_what_is_left_of_a_secret_is_named(data: dict[str, bytes], faults: list[str]) -> None:
    found = read_material(data)
    assert [fault.split(":")[0] for fault in found.faults] == faults
    assert not any("PRIVATE" in fault for fault in found.faults)


def test_a_secret_of_another_type_is_refused_with_what_to_do() -> None:
    secret = {"metadata": {"resourceVersion": "1"}, "type": "kubernetes.io/tls"}
    with pytest.raises(
        ForeignSecret,
        match=r"^Secret gpu/webhook-tls: expected type example\.org/certificates, found one of type kubernetes\.io/tls"
        r"\. Mount it and give --tls DIR",
    ):
        read_stored(secret, SPEC)


def test_what_others_wrote_beside_the_values_of_a_secret_stays() -> None:
    metadata = {"resourceVersion": "7", "labels": {"a": "b"}, "annotations": {"c": "d", MARKS.rotate: "authority"}}
    stored = read_stored({"metadata": metadata, "type": MARKS.secret_type, "data": {"x": "!"}, "kind": "Secret"}, SPEC)
    assert stored is not None
    assert stored.request == "authority"
    request: Any = write(stored, STEADY, SPEC, request="")
    manifest = request.manifest
    assert manifest["metadata"] == {"resourceVersion": "7", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    assert base64.b64decode(manifest["data"]["ca.crt"]) == encode([A.certificate])


SETTLED = Trust({fingerprint(each.certificate): 0.0 for each in (A, B)}, 120.0)
FRESH = Trust({fingerprint(A.certificate): 0.0, fingerprint(B.certificate): 1.0}, 120.0)
ONLY_A = Trust({fingerprint(A.certificate): 0.0}, 500.0)
ONLY_B = Trust({fingerprint(B.certificate): 499.0}, 500.0)
NOBODY = Trust({}, 500.0)


@pytest.mark.parametrize(
    ("in_hand", "material", "trust", "chosen"),
    [
        pytest.param(None, STEADY, ONLY_A, OF_A, id="begin"),
        pytest.param(None, STEADY, None, OF_A, id="begin without a configuration"),
        pytest.param(None, STEADY, NOBODY, None, id="begin later: nobody trusts it yet"),
        pytest.param(None, Material(), ONLY_A, None, id="begin later: there is no Secret"),
        pytest.param(None, TURNING, FRESH, OF_A, id="begin with the old one"),
        pytest.param(None, TURNING, ONLY_B, None, id="begin later: nobody trusts the old one any more"),
        pytest.param(None, LATE, FRESH, None, id="begin later: others have the old one"),
        pytest.param(None, LATE, SETTLED, OF_B, id="begin with the new one"),
        pytest.param(OF_A, TURNING, FRESH, OF_A, id="wait until it has settled"),
        pytest.param(OF_A, TURNING, SETTLED, OF_B, id="follow"),
        pytest.param(OF_A, TURNING, NOBODY, OF_A, id="stay while the bundle is empty"),
        pytest.param(OF_A, TURNING, ONLY_A, OF_A, id="stay while only the old one is trusted"),
        pytest.param(OF_A, TURNING, ONLY_B, OF_B, id="follow at once: the old one is not trusted any more"),
        pytest.param(OF_A, Material(), ONLY_A, OF_A, id="go on without a Secret"),
        pytest.param(OF_A, replace(STEADY, serving=None), ONLY_A, OF_A, id="go on without a pair in the Secret"),
        pytest.param(pair(A, BEGIN - 90 * DAY), TURNING, FRESH, OF_B, id="follow at once: the old one has ended"),
    ],
)
def test_what_a_replica_serves(
    in_hand: TlsBundle | None, material: Material, trust: Trust | None, chosen: TlsBundle | None
) -> None:
    assert choose(in_hand, material, trust, BEGIN + DAY, settle=120) == chosen


def test_a_renewed_certificate_of_the_same_authority_is_served_at_once() -> None:
    renewed = pair(A)
    assert choose(OF_A, replace(STEADY, serving=renewed), NOBODY, BEGIN + DAY, settle=120) == renewed


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
    assert found.trusted == {fingerprint(B.certificate)}
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


def test_trust_settles_by_looks_without_a_gap() -> None:
    found = read_registration(configuration(encode([A.certificate])), SPEC)
    empty = read_registration(configuration(b""), SPEC)
    assert found is not None
    assert empty is not None
    trust = observe(None, found, 0, settle=120)
    for now in (60, 119):
        trust = observe(trust, found, now, settle=120)
        assert not trust.is_settled(A.certificate, settle=120)
    assert observe(trust, found, 120, settle=120).is_settled(A.certificate, settle=120)
    assert not observe(trust, found, 300, settle=120).is_settled(A.certificate, settle=120)
    interrupted = observe(observe(trust, empty, 121, settle=120), found, 122, settle=120)
    assert not observe(interrupted, found, 241, settle=120).is_settled(A.certificate, settle=120)


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


def lease(version: str, holder: str | None, seconds: object = 60) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": version},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": "1999-01-01T00:00:00Z"},
    }


@pytest.mark.parametrize(
    ("found", "now", "may"),
    [
        (lease("1", "other"), 59.0, False),
        (lease("1", "other"), 60.0, True),
        (lease("1", "other", 600), 60.0, False),
        (lease("1", "other", "soon"), 60.0, True),
        (lease("1", "me"), 0.0, True),
        (lease("1", ""), 0.0, True),
        (lease("1", None), 0.0, True),
        ({"metadata": {"resourceVersion": "1"}}, 0.0, True),
    ],
)
def test_who_may_lead(found: dict[str, Any], now: float, may: bool) -> None:
    assert may_lead(found, look(None, found, 0.0), "me", now, least=60) is may


def test_a_leader_counts_as_silent_only_from_its_last_sign_of_life() -> None:
    observed = look(look(None, lease("1", "other"), 0), lease("1", "other"), 50)
    assert observed.since == 0
    assert look(observed, lease("2", "other"), 55).since == 55


def test_transitions_are_counted_for_people() -> None:
    first = lease_spec(None, "me", BEGIN, duration=60)
    assert (first["leaseTransitions"], first["acquireTime"]) == (0, "2026-03-01T12:00:00.000000Z")
    again = lease_spec({"spec": first}, "me", BEGIN + DAY, duration=60)
    assert (again["leaseTransitions"], again["acquireTime"]) == (0, first["acquireTime"])
    other = lease_spec({"spec": again}, "other", BEGIN + DAY, duration=59.5)
    assert (other["leaseTransitions"], other["leaseDurationSeconds"]) == (1, 60)
    assert lease_spec({"spec": other}, "other", BEGIN, duration=60, held=False)["holderIdentity"] == ""


def test_a_replica_that_is_silent_for_long_or_serves_nothing_is_not_waited_for() -> None:
    def of(pod: str, version: str, *serves: str) -> dict[str, Any]:
        found = report(SPEC, Identity(pod, "u", "uid"), serves, BEGIN, every=60)
        found["metadata"]["resourceVersion"] = version
        return found

    def at(now: float, alive: str, before: Any) -> Any:
        leases = [of("dead", "1", "a"), of("alive", alive, "a", "b"), of("gone", "3")]
        return muster(before, leases, now, SPEC, gone=600)

    fleet = at(0, "2", None)
    assert fleet.served == {"webhook-tls.dead": {"a"}, "webhook-tls.alive": {"a", "b"}}
    for now in range(100, 600, 100):
        fleet = at(now, str(now), fleet)
        assert "webhook-tls.dead" in fleet.served
    assert at(600, "600", fleet).served == {"webhook-tls.alive": {"a", "b"}}
    assert "webhook-tls.dead" in at(5000, "5000", fleet).served


def test_what_a_person_is_shown() -> None:
    stored = read_stored(
        {
            "metadata": {"resourceVersion": "1"},
            "type": MARKS.secret_type,
            "data": {key: base64.b64encode(value).decode() for key, value in write_material(TURNING).items()},
        },
        SPEC,
    )
    found = describe(stored, read_registration(configuration(b""), SPEC), SPEC, BEGIN + 10 * DAY)
    assert [each.place for each in found.rows] == ["tls.crt", "previous.crt", "ca.crt", "ca.crt"]
    assert [each.days_left for each in found.rows] == [80.0, 80.0, 720.0, 720.0]
    assert found.faults == ("the caBundle of 0 is not ca.crt",)
    assert [each.what for each in found.events] == [
        "end the overlap of the authorities once every replica serves the new one",
        "renew the serving certificate",
        "begin the rotation of the authority",
    ]
    assert found.events[1].when == due(leaf(OF_B))


def test_bundles_are_read_leniently() -> None:
    both = encode([A.certificate, B.certificate])
    assert load(b"junk" + both + both + b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----") == (
        A.certificate,
        B.certificate,
    )
    assert load_authorities(OF_A.certificate + both) == (A.certificate, B.certificate)
