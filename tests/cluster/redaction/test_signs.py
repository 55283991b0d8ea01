"""A saved pod shows the same signs of peers as the live one, and nothing of its command."""

import json

import msgspec
import pytest

from tests.decisions.request.test_exchange import ALL, SGLANG
from tests.pods import Manifest, container, pod
from webhook.cluster.redaction.pod import kept_pod
from webhook.decisions.request.exchange import Sign, signs
from webhook.decisions.request.settings import CUT, LONGEST
from webhook.objects.manifest.pods import to_json
from webhook.objects.pod import Pod, PodSpec


def told(manifest: Manifest) -> tuple[Sign, ...]:
    spec = msgspec.json.decode(to_json(manifest), type=Pod).spec or PodSpec()
    return signs(spec, spec.containers or ())


def test_the_signs_stay_and_stay_when_they_are_kept_again() -> None:
    for args, env, expected in ALL:
        variables = [{"name": name, "value": value} for name, value in env.items()]
        words = {"args": list(args)} if args else {}
        live = pod({**container(env=variables), **words})
        saved = kept_pod(live)
        assert [str(sign) for sign in told(saved)] == expected, args
        assert told(kept_pod(saved)) == told(live), f"{args} {env}"


def test_the_sign_of_the_hosts_namespaces_stays() -> None:
    live = pod(container(), hostIPC=True, hostPID=True)
    assert told(kept_pod(live)) == told(live) != ()


def test_only_the_signs_of_a_command_are_kept() -> None:
    saved = kept_pod(pod(container(command=["bash", "-c", f"{SGLANG} --api-key s3cret"])))
    assert saved["spec"]["containers"][0]["command"] == [
        "redacted",
        "--disaggregation-mode=prefill",
        "--disaggregation-transfer-backend=nixl",
    ]
    assert "s3cret" not in json.dumps(saved)


def test_a_variable_that_cannot_be_read_hides_no_setting_and_the_rest_is_reported() -> None:
    saved = kept_pod(
        pod(container(command=["sh", "-c", "CUDA_VISIBLE_DEVICES=1 UCX_TLS=all train"], env=[{"name": 7}]))
    )
    words = ["-x", "CUDA_VISIBLE_DEVICES=1", "-x", "UCX_TLS=all"]
    assert saved["spec"]["containers"][0]["command"] == ["redacted", *words, CUT]


SETTINGS: list[tuple[Manifest, Manifest]] = [
    (
        {"command": ["sh", "-c", "export NCCL_P2P_DISABLE=1; train"]},
        {"command": ["redacted", "-x", "NCCL_P2P_DISABLE=1"]},
    ),
    ({"args": ["if a; then NCCL_P2P_DISABLE=1 b; fi"]}, {"command": ["redacted"], "args": ["NCCL_P2P_DISABLE=1"]}),
    ({"args": ["export NCCL_P2P_DISABLE=$(s3cret); a"]}, {"command": ["redacted"], "args": ["NCCL_P2P_DISABLE=$"]}),
    ({"args": ["NCCL_TOPO_FILE=/s3cret train"]}, {"command": ["redacted"], "args": ["NCCL_TOPO_FILE=$"]}),
    ({"args": ["train".ljust(LONGEST), "$NCCL_P2P_LEVEL"]}, {"command": ["redacted", CUT]}),
    ({"args": ["train --token s3cret"]}, {"command": ["redacted"]}),
]


@pytest.mark.parametrize(("given", "kept"), SETTINGS)
def test_settings_are_kept_as_name_and_value_and_text_that_was_not_read_is_marked(
    given: Manifest, kept: Manifest
) -> None:
    saved = kept_pod(pod({**container(), **given}))
    assert {key: value for key, value in saved["spec"]["containers"][0].items() if key in ("command", "args")} == kept
    assert kept_pod(saved) == saved
