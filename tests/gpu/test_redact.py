"""What is taken out of the files of a run, and what stays."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.gpu.model import Machine, Ran, Result, StepResult, Verdict, Word
from tests.gpu.redact import Redactor
from tests.gpu.result import result
from tests.words.secret_kinds import EVERY_KIND, words


def redacted(text: str, **named: str) -> str:
    return Redactor({word.replace("_", "-"): kind for word, kind in named.items()}).text(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "GPU 0: NVIDIA H20 (UUID: GPU-8d5b3c1e-2f60-4a7b-9c3d-0123456789ab)",
            "GPU 0: NVIDIA H20 (UUID: GPU-00000000-0000-0000-0000-000000000001)",
        ),
        (
            "    Serial Number                         : 1654922006536",
            "    Serial Number                         : serial-number-1",
        ),
        ("    Serial Number                         : N/A", "    Serial Number                         : N/A"),
        ("inet 10.42.7.19/24", "inet ip-1/24"),
        ("inet6 fe80::5054:ff:fe12:3456%eth0", "inet6 ip-1"),
        ("ether 52:54:00:12:34:56", "ether mac-1"),
        ("HF_TOKEN=hf_abcdefgh", "HF_TOKEN=***"),
        ('{"password": "hunter2", "cards": 2}', '{"password": "***", "cards": 2}'),
        ("Authorization: Bearer eyJhbGciOi", "Authorization: ***"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: ***"),
        ("token=" + "x" * 9999, "token=***"),
        ('{"name": "HF_TOKEN", "value": "hf_abcdefgh"}', '{"name": "HF_TOKEN", "value": "***"}'),
        ('{"name": "HF_TOKEN", "value": "hf a\\"b c"}', '{"name": "HF_TOKEN", "value": "***"}'),
        ('{\n  "name": "DB_PASSWORD",\n  "value": "a,b"\n}', '{\n  "name": "DB_PASSWORD",\n  "value": "***"\n}'),
        ("- name: API_KEY\n  value: k3y", "- name: API_KEY\n  value: ***"),
        ("- name: API_KEY\n  value: 'k3 y'\n", "- name: API_KEY\n  value: '***'\n"),
        ("python /home/alice/train.py --data /Users/bob", "python /home/user-1/train.py --data /Users/user-2"),
        ('{"args": "token: \\"hunter2\\""}', '{"args": "token: \\"***\\""}'),
        ("Node GUID: 0x506b4b0300c2a1b2", "Node GUID: guid-1"),
        ("node_guid: 506b:4b03:00c2:a1b2", "node_guid: guid-1"),
        ("python /root/project-x/train.py --steps 3", "python /root/path-1 --steps 3"),
        ("pull https://bob:hunter2@git.example/x", "pull https://***@git.example/x"),
        ("AWS AKIAIOSFODNN7EXAMPLE", "AWS ***"),
        ("PASSPHRASE='correct horse battery'", "PASSPHRASE='***'"),
        ("image: registry.corp.example:5000/ml/train:v3", "image: image-1"),
    ],
)
def test_what_tells_whose_machine_it_is_goes(text: str, expected: str) -> None:
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Driver Version: 570.133.20 CUDA Version: 12.8",
        "GPU0\t X \tNV18\tNV18\t0-47,96-143\t0",
        "00000000:1B:00.0 Off",
        "0000:1b:00.0",
        "12:34:56 up 3 days",
        "listens on 127.0.0.1:8443",
        '<nvlink target="0000:1b:00.0" count="18" tclass="0x068000"/>',
        "maxBw 370.8 totalBw 370.8",
        "comm 0x55cd1a0bf930 rank 1 busId 2b000",
        "2026-11-23T03:29:56Z",
        '{"name": "NCCL_DEBUG", "value": "INFO"}',
        '{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"key": "hf"}}}',
        "/opt/home/train.py /homes/alice",
        '{"serviceAccountToken": {"path": "token"}, "automountServiceAccountToken": true}',
    ],
)
def test_what_the_verdicts_rest_on_stays(text: str) -> None:
    assert redacted(text) == text


def test_the_same_value_has_the_same_placeholder_and_another_has_another() -> None:
    one, other = "GPU-8d5b3c1e-2f60-4a7b-9c3d-0123456789ab", "GPU-8d5b3c1e-2f60-4a7b-9c3d-0123456789ac"
    redactor = Redactor({})
    first, second = redactor.text(f"{one} {other}").split()
    assert first != second
    assert redactor.text(f"uuid={other.removeprefix('GPU-')} {one.upper().replace('GPU', 'GPU')}").endswith(first)
    assert redactor.values == 2


def test_a_host_is_taken_out_wherever_it_stands_and_a_word_with_it_in_it_is_not() -> None:
    found = redacted("node gpu-7, gpu-77, gpu-7.corp and my-gpu-7", gpu_7="host")
    assert found == "node host-1, gpu-77, host-1.corp and my-gpu-7"


def test_the_longer_of_two_names_goes_first() -> None:
    redactor = Redactor({"train": "host", "train.corp": "host"})
    assert redactor.text("train.corp train") == "host-2 host-1"


def test_a_name_of_one_letter_stays() -> None:
    assert redacted("n is here", n="host") == "n is here"


uuids = st.uuids().map(str)


@given(st.one_of(st.ip_addresses(v=4, network="10.0.0.0/8"), st.ip_addresses(v=6, network="2001:db8::/32")).map(str))
def test_no_address_is_left(address: str) -> None:
    assert redacted(f"from {address} to ({address})") == "from ip-1 to (ip-1)"


@given(st.lists(st.tuples(uuids, st.integers(0, 9)), min_size=1))
def test_no_uuid_is_left_and_json_stays_json(values: list[tuple[str, int]]) -> None:
    text = json.dumps([{"uuid": f"GPU-{uuid}", "index": index} for uuid, index in values])
    found = redacted(text)
    assert not any(uuid in found for uuid, _ in values if not uuid.startswith("00000000-0000-0000-0000-"))
    same = [each["uuid"] for each in json.loads(found)]
    assert [same.index(uuid) for uuid in same] == [[u for u, _ in values].index(uuid) for uuid, _ in values]


@given(st.text())
def test_any_text_is_taken(text: str) -> None:
    assert isinstance(redacted(text, gpu_host="host"), str)


@pytest.mark.parametrize("piece", ["a", "token", "1.", ":", "a-", "serial"])
def test_a_long_text_without_anything_to_take_out_stays(piece: str) -> None:
    """Where a rule looked again from each of its places, this took minutes."""
    text = piece * (200_000 // len(piece))
    assert redacted(text) == text


@given(st.text(), st.sampled_from(['serial="', "token=", "password: ", ""]))
def test_a_result_stays_one_whatever_the_steps_said(text: str, label: str) -> None:
    said = f'{label}{text}"'
    verdict = Verdict(claim="links", says="", verdict=Word.FAILS, why=said)
    ran = Ran(name="a", argv=("a", said), exit_code=0, seconds=1.0, files=())
    found = result(
        version="0.1.0",
        at=datetime(2026, 11, 23, tzinfo=UTC),
        machine=Machine(),
        verdicts=[verdict],
        ran=[ran],
        results=[StepResult(step="a", says="", verdict=Word.FAILS, why=said)],
        is_whole=True,
        files={},
        redactor=Redactor({"links": "host", "steps": "host"}),
    )
    assert msgspec.json.decode(found, type=Result).verdicts[0].verdict is Word.FAILS


def test_the_name_of_a_host_goes_in_capitals_too() -> None:
    assert redacted("GPU-NODE-7 gpu-node-7 Gpu-Node-7.corp gpu-node-70", gpu_node_7="host") == (
        "host-1 host-1 host-1.corp gpu-node-70"
    )


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_no_secret_of_any_kind_is_in_an_archive(kind: str) -> None:
    before, secret, after = EVERY_KIND[kind]
    found = redacted(f"2026 NCCL INFO {before}{secret}{after}\n")
    assert not any(word in found for word in words(secret))
