"""Assignments of GPU lists in commands: what is found, and what is not one."""

from typing import Any

import msgspec
import pytest

from tests.pods import container
from webhook.decisions.request.command_text import MENTIONS, MENTIONS_OF_ALL, assigned_lists, lists_of_each
from webhook.objects.pod import Container, MalformedPod

CUDA, NVIDIA = "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"


def found(*args: str, **fields: Any) -> tuple[str, ...]:
    if args:
        fields["args"] = list(args)
    return assigned_lists(msgspec.json.decode(msgspec.json.encode(container(**fields)), type=Container))


SET = [
    "CUDA_VISIBLE_DEVICES=0,1",
    "CUDA_VISIBLE_DEVICES=2 python3 -m sglang.launch_server",
    "sleep 30 && CUDA_VISIBLE_DEVICES=$(find /proc/driver/nvidia/gpus/ -mindepth 1 | sort) python3 -m sglang",
    "export CUDA_VISIBLE_DEVICES=0",
    "export FOO=1 CUDA_VISIBLE_DEVICES=0 BAR=2",
    'export CUDA_VISIBLE_DEVICES="0,1"',
    "export 'CUDA_VISIBLE_DEVICES'=0",
    "export CUDA_VISIBLE_DEVICES='GPU-1'; exec train",
    "env CUDA_VISIBLE_DEVICES=3 train",
    "nohup env A=1 CUDA_VISIBLE_DEVICES=3 train &",
    "declare -x CUDA_VISIBLE_DEVICES=0",
    "CUDA_VISIBLE_DEVICES=$NVIDIA_VISIBLE_DEVICES train",
    "CUDA_VISIBLE_DEVICES=${RANK} train",
    'CUDA_VISIBLE_DEVICES="$((RANK * 2))" train',
    "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES,3 train",
    "CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:+0} train",
    "CUDA_VISIBLE_DEVICES+=,2 train",
    "(CUDA_VISIBLE_DEVICES=0 a) & (b)",
    "x=$(CUDA_VISIBLE_DEVICES=0 a)",
    'if [ -z "$CUDA_VISIBLE_DEVICES" ]; then export CUDA_VISIBLE_DEVICES=0; fi',
    "echo start; CUDA_VISIBLE_DEVICES=0 train",
    "echo start\nCUDA_VISIBLE_DEVICES=0 train",
    "echo 'export CUDA_VISIBLE_DEVICES=0' >> /etc/profile",
    "setenv CUDA_VISIBLE_DEVICES 0",
    "unset CUDA_VISIBLE_DEVICES; train",
    "unset FOO CUDA_VISIBLE_DEVICES && train",
    "env -u CUDA_VISIBLE_DEVICES train",
    "env --unset=CUDA_VISIBLE_DEVICES train",
    "mpirun -x CUDA_VISIBLE_DEVICES=0,1 train",
    'ray start --head && ray job submit --runtime-env-json=\'{"env_vars": {"CUDA_VISIBLE_DEVICES": "0"}}\'',
    'import os; os.environ["CUDA_VISIBLE_DEVICES"] = "0"',
    "import os\nos.environ['CUDA_VISIBLE_DEVICES']='0,1'",
    'python -c "import os; os.environ[\\"CUDA_VISIBLE_DEVICES\\"] = \\"0\\""',
    'os.environ["CUDA_VISIBLE_DEVICES"] = str(rank)',
    'os.environ.update({"CUDA_VISIBLE_DEVICES": "0"})',
    "os.environ.update(CUDA_VISIBLE_DEVICES='0')",
    'os.putenv("CUDA_VISIBLE_DEVICES", "0")',
    'del os.environ["CUDA_VISIBLE_DEVICES"]',
    'os.environ.pop("CUDA_VISIBLE_DEVICES", None)',
    'subprocess.run(["env", "CUDA_VISIBLE_DEVICES=" + ids, "train"])',
    "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0  # the first",
]
NOT_SET = [
    "train --devices 0",
    "echo $CUDA_VISIBLE_DEVICES",
    "echo ${CUDA_VISIBLE_DEVICES}",
    'echo "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES"',
    "echo CUDA_VISIBLE_DEVICES=0",
    "if true; then echo CUDA_VISIBLE_DEVICES=0; fi",
    'printf "CUDA_VISIBLE_DEVICES=%s" "$X"',
    "env | grep CUDA_VISIBLE_DEVICES=",
    "env | grep VISIBLE_DEVICES",
    'if [ "$CUDA_VISIBLE_DEVICES" = "0" ]; then train; fi',
    'if [ "$CUDA_VISIBLE_DEVICES"="0" ]; then train; fi',
    "[[ $CUDA_VISIBLE_DEVICES == 0 ]] && train",
    "[[ ${CUDA_VISIBLE_DEVICES} == 0 ]] && train",
    'test -n "${CUDA_VISIBLE_DEVICES:-}"',
    ': "${CUDA_VISIBLE_DEVICES:=0}"',
    ': "${CUDA_VISIBLE_DEVICES=0}"',
    "for d in ${CUDA_VISIBLE_DEVICES//,/ }; do a; done",
    "GPUS=$CUDA_VISIBLE_DEVICES train",
    "MY_CUDA_VISIBLE_DEVICES=0 train",
    "CUDA_VISIBLE_DEVICES_LIST=0 train",
    "CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES train",
    'export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES}"',
    "export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES%%,*}",
    "CUDA_VISIBLE_DEVICES=$(CUDA_VISIBLE_DEVICES)",
    "export CUDA_VISIBLE_DEVICES",
    "mpirun -x CUDA_VISIBLE_DEVICES train",
    "CUDA_VISIBLE_DEVICES= python3 router.py",
    "CUDA_VISIBLE_DEVICES='' python3 router.py",
    'CUDA_VISIBLE_DEVICES="" python3 router.py',
    "CUDA_VISIBLE_DEVICES=-1 python3 router.py",
    "# CUDA_VISIBLE_DEVICES=0 train",
    "train # with CUDA_VISIBLE_DEVICES=0",
    'os.environ["CUDA_VISIBLE_DEVICES"]',
    'print(os.environ["CUDA_VISIBLE_DEVICES"])',
    'print("CUDA_VISIBLE_DEVICES=", os.environ.get("CUDA_VISIBLE_DEVICES"))',
    'os.environ["CUDA_VISIBLE_DEVICES"] == "0"',
    'os.environ["CUDA_VISIBLE_DEVICES"] != "0"',
    'os.environ.get("CUDA_VISIBLE_DEVICES") == "0"',
    'os.environ.get("CUDA_VISIBLE_DEVICES", "0")',
    'os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")',
    'os.environ["CUDA_VISIBLE_DEVICES"] = ""',
    'if "CUDA_VISIBLE_DEVICES" in os.environ: train()',
    'json.dumps({"CUDA_VISIBLE_DEVICES": os.environ["CUDA_VISIBLE_DEVICES"]})',
    "train --cuda-visible-devices=0",
]


@pytest.mark.parametrize("text", SET)
def test_an_assignment_is_found(text: str) -> None:
    assert found(text) == (CUDA,)


@pytest.mark.parametrize("text", NOT_SET)
def test_what_only_reads_the_variable_or_hides_gpus_is_no_assignment(text: str) -> None:
    assert found(text) == ()


def test_the_list_of_the_runtime_counts_too() -> None:
    assert found("export NVIDIA_VISIBLE_DEVICES=all CUDA_VISIBLE_DEVICES=0") == (NVIDIA, CUDA)


TEXT = "export CUDA_VISIBLE_DEVICES=0"
PLACES: list[dict[str, Any]] = [
    {"command": ["bash", "-c", TEXT]},
    {"command": ["env", "CUDA_VISIBLE_DEVICES=0", "train"]},
    {"command": ["env", "-u", "CUDA_VISIBLE_DEVICES", "train"]},
    {"command": ["bash"], "args": ["-ec", TEXT]},
    {"livenessProbe": {"exec": {"command": ["sh", "-c", TEXT]}}},
    {"readinessProbe": {"exec": {"command": ["sh", "-c", TEXT]}, "periodSeconds": 3}},
    {"startupProbe": {"exec": {"command": ["sh", "-c", TEXT]}}},
    {"lifecycle": {"postStart": {"exec": {"command": ["sh", "-c", TEXT]}}, "stopSignal": "SIGTERM"}},
    {"lifecycle": {"preStop": {"exec": {"command": ["sh", "-c", TEXT]}}}},
]


@pytest.mark.parametrize("fields", PLACES)
def test_every_command_of_a_container_is_looked_at(fields: dict[str, Any]) -> None:
    assert found(**fields) == (CUDA,)


@pytest.mark.parametrize(
    "fields",
    [
        {"command": None, "args": None, "lifecycle": None, "livenessProbe": None},
        {"livenessProbe": {"httpGet": {"path": "/CUDA_VISIBLE_DEVICES=0", "port": 80}}},
        {"lifecycle": {"preStop": {"sleep": {"seconds": 3}}, "postStart": None}},
        {"image": "registry.local/CUDA_VISIBLE_DEVICES=0"},
    ],
)
def test_fields_without_a_command_are_not(fields: dict[str, Any]) -> None:
    assert found(**fields) == ()


def test_letters_that_json_spells_by_their_numbers_are_read() -> None:
    raw = b'{"name": "c", "args": ["C\\u0055DA_VISIBLE_DEVICE\\u0053=0"]}'
    assert assigned_lists(msgspec.json.decode(raw, type=Container)) == (CUDA,)


def test_commands_without_a_mention_are_not_decoded() -> None:
    broken = msgspec.json.decode(b'{"name": "c", "args": [1, {"a": "b\\n"}]}', type=Container)
    assert assigned_lists(broken) == ()
    with pytest.raises(MalformedPod, match="args of container c"):
        assigned_lists(msgspec.json.decode(b'{"name": "c", "args": [1, "CUDA_VISIBLE_DEVICES=0"]}', type=Container))


def test_no_more_than_so_many_mentions_are_looked_at() -> None:
    mentions = "echo $CUDA_VISIBLE_DEVICES\n"
    assert found(mentions * (MENTIONS - 1) + TEXT) == (CUDA,)
    assert found(mentions * MENTIONS + TEXT) == ()


def test_of_all_containers_of_a_pod_so_many_mentions_are_looked_at() -> None:
    fat = msgspec.json.decode(
        msgspec.json.encode(container(args=["$CUDA_VISIBLE_DEVICES "] * MENTIONS)), type=Container
    )
    last = msgspec.json.decode(msgspec.json.encode(container(args=[TEXT])), type=Container)
    most = MENTIONS_OF_ALL // MENTIONS
    assert list(lists_of_each([*[fat] * (most - 1), last]))[-1] == (CUDA,)
    assert list(lists_of_each([*[fat] * most, last]))[-1] == ()
