"""The settings in commands: what is found, with which value and how surely, and what is no assignment."""

from typing import Any

import msgspec
import pytest

from tests.pods import container
from webhook.decisions.request.settings import (
    LONGEST,
    LONGEST_OF_ALL,
    MENTIONS,
    MENTIONS_OF_ALL,
    Place,
    Setting,
    Texts,
    disables_control,
    read_texts,
)
from webhook.objects.pod import Container, MalformedPod

CUDA, P2P = "CUDA_VISIBLE_DEVICES", "NCCL_P2P_DISABLE"


def decoded(*args: str, **fields: Any) -> Container:
    if args:
        fields["args"] = list(args)
    return msgspec.json.decode(msgspec.json.encode(container(**fields)), type=Container)


def read(*args: str, **fields: Any) -> Texts:
    return next(read_texts([decoded(*args, **fields)]))


def found(*args: str, **fields: Any) -> tuple[str, ...]:
    return read(*args, **fields).lists


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


def test_the_runtime_sees_no_list_of_a_command_and_the_device_plugin_no_variable() -> None:
    text = "export NVIDIA_VISIBLE_DEVICES=all CUDA_DISABLE_CONTROL=true; train"
    assert read(text) == Texts()
    assert not disables_control(decoded(text).env or ())


SURE = [
    ("export NCCL_P2P_DISABLE=1; torchrun train.py", "1"),
    ("cd /app && export FOO=1 NCCL_P2P_DISABLE=1 && torchrun train.py", "1"),
    ("env NCCL_P2P_DISABLE=1 torchrun train.py; sync", "1"),
    ("declare -x NCCL_P2P_LEVEL=LOC; train", "LOC"),
    ("NCCL_P2P_LEVEL=LOC vllm serve m", "LOC"),
    ("sleep 3; FOO=1 NCCL_P2P_LEVEL='LOC' vllm serve m", "LOC"),
    ("mpirun -np 2 -x NCCL_P2P_DISABLE=1 train", "1"),
    ("mpirun --env NCCL_P2P_DISABLE=1 train", "1"),
    ('import os; os.environ["NCCL_P2P_DISABLE"] = "1"; main()', "1"),
    ("UCX_TLS=rc,tcp exec serve", "rc,tcp"),
    ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:512 train", None),
]
DOUBTFUL = [
    ("NCCL_P2P_DISABLE=1; torchrun train.py", "1"),
    ("NCCL_P2P_DISABLE=1 nccl-test; torchrun train.py", "1"),
    ("torchrun train.py; export NCCL_P2P_DISABLE=1", "1"),
    ('if [ "$ARCH" = a ]; then export NCCL_P2P_DISABLE=1; fi; train', "1"),
    ("test -e /dev/x || export NCCL_P2P_DISABLE=1; train", "1"),
    ("export NCCL_P2P_DISABLE=$OFF; train", None),
    ("export NCCL_P2P_DISABLE=$(cat /off); train", None),
    ('os.environ["NCCL_P2P_DISABLE"] = off; main()', None),
    ("export NCCL_P2P_DISABLE=hf_qwertzuiopasdfghjklyx; train", None),
    ("python train.py NCCL_P2P_DISABLE=1", "1"),
]


def test_an_assignment_has_its_value_and_how_sure_it_is(subtests: pytest.Subtests) -> None:
    for text, value in SURE:
        with subtests.test(text):
            (setting,) = read(text).settings
            assert setting.is_certain
            assert value in (setting.value, None)
    for text, value in DOUBTFUL:
        with subtests.test(text):
            (setting,) = read(text).settings
            assert (setting.value, setting.is_certain) == (value, False)


WORDS = [
    (["env", "NCCL_P2P_DISABLE=1", "train"], True),
    (["mpirun", "-x", "NCCL_P2P_DISABLE=1", "train"], True),
    (["train.py", "NCCL_P2P_DISABLE=1"], False),
]


@pytest.mark.parametrize(("words", "is_certain"), WORDS)
def test_a_word_of_its_own_counts_behind_env_and_a_launcher(words: list[str], *, is_certain: bool) -> None:
    assert read(command=words).settings == (Setting(P2P, "1", Place.COMMAND, is_certain=is_certain),)


def test_a_reference_to_a_literal_variable_has_its_value_and_any_other_none() -> None:
    env = [{"name": "OFF", "value": "1"}]
    assert read("export NCCL_P2P_DISABLE=$(OFF); train", env=env).settings[0].value == "1"
    assert read("export NCCL_P2P_DISABLE=$(ON); train", env=env).settings[0].value is None


def test_a_default_and_a_removal_are_told_apart() -> None:
    assert read("export NCCL_P2P_DISABLE=${NCCL_P2P_DISABLE:-1}; train").settings == (
        Setting(P2P, "1", Place.ARGUMENTS, is_default=True),
    )
    assert read('os.environ.setdefault("NCCL_P2P_DISABLE", "1")').settings == (
        Setting(P2P, "1", Place.ARGUMENTS, is_default=True),
    )
    assert read("unset NCCL_P2P_DISABLE; train").settings == (Setting(P2P, None, Place.ARGUMENTS, is_removed=True),)


def test_the_place_of_a_setting_is_known_and_hooks_are_no_part_of_the_program() -> None:
    text = "export NCCL_P2P_DISABLE=1; train"
    assert read(command=["sh", "-c", text]).settings[0].place is Place.COMMAND
    assert read(command=["sh"], args=["-c", text]).settings[0].place is Place.ARGUMENTS
    hook = read(livenessProbe={"exec": {"command": ["sh", "-c", text]}})
    assert (hook.settings[0].place, hook.of_program) == (Place.HOOK, ())


@pytest.mark.parametrize("texts", [SURE, DOUBTFUL, [(each, None) for each in (*SET, *NOT_SET)]])
def test_the_words_of_a_setting_are_read_as_the_same_setting(texts: list[tuple[str, str | None]]) -> None:
    for text, _ in texts:
        settings = read(text).settings
        assert read(*[word for setting in settings for word in setting.words]).settings == settings, text


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
    assert next(read_texts([msgspec.json.decode(raw, type=Container)])).lists == (CUDA,)


def test_commands_without_a_mention_are_not_decoded() -> None:
    broken = msgspec.json.decode(b'{"name": "c", "args": [1, {"a": "b\\n"}]}', type=Container)
    assert next(read_texts([broken])) == Texts()
    with pytest.raises(MalformedPod, match="args of container c"):
        next(read_texts([msgspec.json.decode(b'{"name": "c", "args": [1, "CUDA_VISIBLE_DEVICES=0"]}', type=Container)]))


def test_no_more_than_so_many_mentions_are_looked_at_and_the_rest_is_reported() -> None:
    mentions = "echo $CUDA_VISIBLE_DEVICES\n"
    last, behind = read(mentions * (MENTIONS - 1) + TEXT), read(mentions * MENTIONS + TEXT)
    assert (last.lists, last.is_cut) == ((CUDA,), False)
    assert (behind.lists, behind.is_cut) == ((), True)


def test_no_longer_text_is_read_and_the_rest_is_reported() -> None:
    last, behind = read(TEXT.rjust(LONGEST)), read(TEXT.rjust(LONGEST + 1))
    assert (last.lists, last.is_cut) == ((CUDA,), False)
    assert behind.is_cut


def test_of_all_containers_of_a_pod_so_much_is_read() -> None:
    last, fat = decoded(TEXT), decoded(*["$CUDA_VISIBLE_DEVICES "] * MENTIONS)
    most = MENTIONS_OF_ALL // MENTIONS
    assert [list(read_texts([*[fat] * count, last]))[-1].is_cut for count in (most - 1, most)] == [False, True]
    fat, most = decoded("$CUDA_VISIBLE_DEVICES".ljust(LONGEST)), LONGEST_OF_ALL // LONGEST
    assert [list(read_texts([*[fat] * count, last]))[-1].is_cut for count in (most - 1, most)] == [False, True]
