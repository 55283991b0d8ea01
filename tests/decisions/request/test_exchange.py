"""Signs of an exchange of GPU memory: each with its opposite."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pods import container
from webhook.decisions.request.exchange import Sign, signs
from webhook.decisions.request.settings import LONGEST, LONGEST_OF_ALL, read_texts
from webhook.decisions.request.transfer_flags import NOTHING_SAID, said_by, spelled
from webhook.objects.pod import Container, MalformedPod, PodSpec

PREFILL, NIXL = "--disaggregation-mode prefill", "--disaggregation-transfer-backend nixl"
SGLANG = f"python3 -m sglang.launch_server {PREFILL} {NIXL}"
CTX_YAML = (
    "cat > c.yaml <<EOF\ncache_transceiver_config:\n  backend: %s\nEOF\ntrtllm-serve m --extra_llm_api_options c.yaml"
)


def decoded(*args: str, env: dict[str, str] | None = None, **fields: Any) -> Container:
    """A container with these arguments and variables."""
    if args:
        fields["args"] = list(args)
    if env:
        fields["env"] = [{"name": name, "value": value} for name, value in env.items()]
    return msgspec.json.decode(msgspec.json.encode(container(**fields)), type=Container)


def found(*args: str, env: dict[str, str] | None = None, **fields: Any) -> list[str]:
    """The signs of such a container, as messages name them."""
    return [str(sign) for sign in signs(PodSpec(), [decoded(*args, env=env, **fields)])]


def config(connector: str, **extra: Any) -> str:
    """A configuration of vLLM's transfer."""
    return json.dumps({"kv_connector": connector, "kv_role": "kv_both", "kv_connector_extra_config": extra})


def both(*connectors: str) -> str:
    """A configuration of several connectors."""
    return config("MultiConnector", connectors=[{"kv_connector": name} for name in connectors])


Said = tuple[tuple[str, ...], dict[str, str], list[str]]

SGLANG_SIGNS: list[Said] = [
    ((SGLANG,), {}, ["SGLang nixl"]),
    (("--disaggregation-mode", "decode", "--disaggregation-transfer-backend", "nixl"), {}, ["SGLang nixl"]),
    (("--disaggregation-mode=decode", "--disaggregation-transfer-backend=nixl"), {}, ["SGLang nixl"]),
    ((f"exec sglang \\\n  --disaggregation-mode \\\n  'prefill' {NIXL}",), {}, ["SGLang nixl"]),
    (("--disaggregation-mode $(ROLE)", NIXL), {"ROLE": "prefill"}, ["SGLang nixl"]),
    ((f"--disaggregation-mode ${{ROLE}} {NIXL}",), {"ROLE": "decode"}, ["SGLang nixl"]),
    ((f"if [ $ROLE = p ]; then sglang {PREFILL} {NIXL}; else sglang --disaggregation-mode decode {NIXL}; fi",), {},
     ["SGLang nixl"]),
    ((PREFILL,), {}, []),
    ((NIXL,), {}, []),
    ((f"{PREFILL} --disaggregation-transfer-backend mooncake",), {}, []),
    ((f"--disaggregation-mode null {NIXL}",), {}, []),
    ((f"--disaggregation-mode prefill_and_decode {NIXL}",), {}, []),
    ((f"# {SGLANG}\nsglang serve",), {}, []),
    ((f"echo {SGLANG}",), {}, []),
    ((f"{SGLANG} &\npython3 -m sglang.launch_server --disaggregation-mode decode {NIXL}",), {}, []),
    ((SGLANG,), {"UCX_TLS": "rc,tcp"}, []),
    ((SGLANG,), {"UCX_TLS": "^cuda_ipc"}, []),
    ((SGLANG,), {"UCX_TLS": "all"}, ["SGLang nixl"]),
    ((SGLANG,), {"UCX_TLS": "^ib"}, ["SGLang nixl"]),
    ((SGLANG,), {"UCX_TLS": "cuda_ipc,cuda_copy,rc,tcp"}, ["SGLang nixl", "UCX cuda_ipc"]),
    ((f"UCX_TLS=tcp {SGLANG}",), {"UCX_TLS": "cuda_ipc"}, []),
    (("--disaggregation-mode $(ROLE)", NIXL), {}, []),
]  # fmt: skip

VLLM_SIGNS: list[Said] = [
    (("--kv-transfer-config", config("NixlConnector")), {}, ["vLLM NixlConnector"]),
    (("--kv_transfer_config", config("NixlConnector")), {}, ["vLLM NixlConnector"]),
    ((f"--kv-transfer-config={config('P2pNcclConnector')}",), {}, ["vLLM P2pNcclConnector"]),
    (("--kv-transfer-config.kv_connector", "NixlConnector"), {}, ["vLLM NixlConnector"]),
    ((f"vllm serve m --kv-transfer-config '{config('NixlConnector')}' --port 80",), {}, ["vLLM NixlConnector"]),
    (('vllm serve m --kv-transfer-config "{\\"kv_connector\\":\\"NixlConnector\\",\\"kv_role\\":\\"kv_both\\"}"',), {},
     ["vLLM NixlConnector"]),
    (("""vllm serve --kv-transfer-config '{"kv_connector":"P2pNcclConnector","kv_port":"'"$PORT"'"}'""",), {},
     ["vLLM P2pNcclConnector"]),
    (("--kv-transfer-config", both("OffloadingConnector", "NixlConnector")), {}, ["vLLM NixlConnector"]),
    (("--kv-transfer-config", "$(KV)"), {"KV": config("NixlConnector")}, ["vLLM NixlConnector"]),
    (("--kv-transfer-config", config("NixlConnector", backends=["UCX", "GDS"])), {}, ["vLLM NixlConnector"]),
    (("--kv-transfer-config", config("NixlConnector", backends=["LIBFABRIC"])), {}, []),
    (("--kv-transfer-config", config("NixlConnector")), {"UCX_TLS": "rc,sm"}, []),
    (("--kv-transfer-config", config("P2pNcclConnector")), {"UCX_TLS": "rc,sm"}, ["vLLM P2pNcclConnector"]),
    (("--kv-transfer-config", config("OffloadingConnector")), {}, []),
    (("--kv-transfer-config", config("SharedStorageConnector")), {}, []),
    (("--kv-transfer-config", config("LMCacheConnectorV1")), {}, []),
    (("--kv-transfer-config", both("OffloadingConnector", "LMCacheConnectorV1")), {}, []),
    (("--kv-transfer-config", config("MooncakeConnector")), {}, []),
    (("--kv-transfer-config", config("MooncakeConnector", mooncake_protocol="nvlink_intra")), {},
     ["Mooncake nvlink_intra"]),
    (("--kv-transfer-config", '{"kv_connector": 7, "more": [null, {"kv_connector": []}]}'), {}, []),
    (("--kv-transfer-config", "{"), {}, []),
    (("--kv-transfer-config", "[" * 4000), {}, []),
    (("--kv-transfer-config",), {}, []),
]  # fmt: skip

OTHER_SIGNS: list[Said] = [
    ((), {"VLLM_ADDITIONAL_ARGS": f"--kv_transfer_config '{config('NixlConnector')}'"}, ["vLLM NixlConnector"]),
    ((), {"VLLM_ADDITIONAL_TEXT": f"--kv_transfer_config '{config('NixlConnector')}'"}, []),
    (("--kv-transfer-config", config("LMCacheMPConnector", **{"lmcache.mp.host": "10.0.0.1"})), {},
     ["LMCache LMCacheMPConnector"]),
    (("--kv-transfer-config", config("LMCacheMPConnector", **{"lmcache.mp.host": "tcp://localhost"})), {}, []),
    (("--kv-transfer-config", config("LMCacheMPConnector")), {}, []),
    (("--kv-transfer-config", config("LMCacheConnectorV1")), {"LMCACHE_ENABLE_NIXL": "True"}, ["LMCache nixl"]),
    ((), {"LMCACHE_ENABLE_PD": "true"}, ["LMCache nixl"]),
    ((), {"LMCACHE_ENABLE_PD": "false"}, []),
    ((), {"LMCACHE_ENABLE_PD": "true", "LMCACHE_PD_BUFFER_DEVICE": "cpu"}, []),
    (("python3 -m dynamo.vllm --model m --is-prefill-worker",), {}, ["Dynamo nixl"]),
    (("python3 -m dynamo.trtllm --disaggregation-mode decode",), {}, ["Dynamo nixl"]),
    ((f"python3 -m dynamo.vllm {PREFILL} --kv-transfer-config '{config('NixlConnector')}'",), {},
     ["vLLM NixlConnector"]),
    ((f"python3 -m dynamo.vllm {PREFILL} --kv-transfer-config '{config('OffloadingConnector')}'",), {}, []),
    (("python3 -m dynamo.vllm --is-prefill-worker --connector none",), {}, []),
    (("python3 -m dynamo.vllm --model m",), {}, []),
    (("python3 -m dynamo.trtllm --disaggregation-mode prefill_and_decode",), {}, []),
    ((CTX_YAML % "UCX",), {}, ["TensorRT-LLM cache transceiver"]),
    ((CTX_YAML % "DEFAULT",), {}, ["TensorRT-LLM cache transceiver"]),
    ((CTX_YAML % "MPI",), {}, []),
    ((f"{CTX_YAML % 'UCX'} & trtllm-serve disaggregated -c all.yaml",), {}, []),
    ((), {"TRTLLM_USE_UCX_KVCACHE": "1"}, ["TensorRT-LLM cache transceiver"]),
    ((), {"TRTLLM_USE_NIXL_KVCACHE": "0"}, []),
    ((PREFILL,), {"MC_INTRANODE_NVLINK": "true"}, ["Mooncake nvlink_intra"]),
    ((f"export MC_INTRANODE_NVLINK=true\nsglang {PREFILL}",), {}, ["Mooncake nvlink_intra"]),
    ((PREFILL,), {"MC_INTRANODE_NVLINK": "0"}, []),
    ((PREFILL,), {"MC_FORCE_MNNVL": "1"}, ["Mooncake nvlink"]),
    (("MC_FORCE_MNNVL=1 MC_USE_NVLINK_IPC=1 serve",), {}, ["Mooncake nvlink"]),
    ((PREFILL,), {"MC_USE_NVLINK_IPC": "0"}, []),
    ((PREFILL,), {"MC_INTRANODE_NVLINK": "1", "MC_USE_NVLINK_IPC": "1"}, ["Mooncake nvlink_intra"]),
    ((PREFILL,), {"SGLANG_MOONCAKE_CUSTOM_MEM_POOL": "INTRA_NODE_NVLINK"}, ["Mooncake nvlink_intra"]),
    ((PREFILL,), {"SGLANG_MOONCAKE_CUSTOM_MEM_POOL": "BAREX"}, []),
    ((), {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}, ["NIXL UCX"]),
    (("--kv-transfer-config", config("OffloadingConnector")), {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}, []),
    ((), {"VLLM_NIXL_SIDE_CHANNEL_PORT": "5600", "UCX_TLS": "tcp"}, []),
    ((), {"UCX_TLS": "cuda_ipc,cuda_copy,tcp"}, ["UCX cuda_ipc"]),
    (("UCX_TLS=cuda_copy,cuda_ipc ucx_perftest",), {}, ["UCX cuda_ipc"]),
    ((), {"UCX_TLS": "cuda,tcp"}, ["UCX cuda_ipc"]),
    ((), {"UCX_TLS": "all"}, []),
    ((), {"UCX_TLS": "^ib"}, []),
    (("mpirun -np 8 train",), {"UCX_TLS": "cuda_ipc,tcp"}, []),
    (("torchrun --nproc-per-node 8 train.py",), {"UCX_TLS": "cuda_ipc,tcp"}, []),
    (("vllm serve m --tensor-parallel-size 8",), {"NCCL_DEBUG": "INFO"}, []),
]  # fmt: skip
ALL = [*SGLANG_SIGNS, *VLLM_SIGNS, *OTHER_SIGNS]


def test_each_program_has_its_signs(subtests: pytest.Subtests) -> None:
    for args, env, expected in ALL:
        with subtests.test(f"{args} {env}"):
            assert found(*args, env=env) == expected


def test_words_may_stand_in_the_command_or_be_escaped_in_json() -> None:
    assert found(command=["bash", "-c", SGLANG]) == ["SGLang nixl"]
    escaped = msgspec.json.encode(container(args=[SGLANG])).replace(b"transfer", b"tr\\u0061nsfer")
    assert [str(sign) for sign in signs(PodSpec(), [msgspec.json.decode(escaped, type=Container)])] == ["SGLang nixl"]


def test_a_probe_starts_no_exchange() -> None:
    assert found(livenessProbe={"exec": {"command": ["sh", "-c", SGLANG]}}) == []


def test_a_variable_from_elsewhere_has_no_known_value() -> None:
    secret = {"name": "UCX_TLS", "valueFrom": {"configMapKeyRef": {"name": "ucx", "key": "tls"}}}
    assert found(SGLANG, env=None) == found(args=[SGLANG]) == ["SGLang nixl"]
    assert [str(sign) for sign in signs(PodSpec(), [
        msgspec.json.decode(msgspec.json.encode(container(env=[secret])), type=Container)
    ])] == []  # fmt: skip


@pytest.mark.parametrize(("ipc", "pid", "is_sign"), [(True, True, True), (True, False, False), (False, True, False)])
def test_two_namespaces_of_the_host_are_a_sign_and_one_is_none(ipc: bool, pid: bool, is_sign: bool) -> None:
    told = [str(sign) for sign in signs(PodSpec(host_ipc=ipc, host_pid=pid), [decoded()])]
    assert told == (["hostIPC and hostPID"] if is_sign else [])


def test_signs_name_their_containers_in_order() -> None:
    two = signs(PodSpec(), [decoded(SGLANG, name="prefill"), decoded("sleep"), decoded(SGLANG, name="decode")])
    assert [sign.container for sign in two] == ["prefill", "decode"]


def test_a_flag_behind_the_longest_text_is_not_found() -> None:
    assert found(f"{'x' * (LONGEST - len(SGLANG) - 1)} {SGLANG}") == ["SGLang nixl"]
    assert found(f"{'x' * LONGEST} {SGLANG}") == []


def test_many_references_to_a_long_variable_do_not_grow_without_end() -> None:
    assert found("$(UCX_TLS) " * 5000, env={"UCX_TLS": "x" * 100_000}) == []


def test_a_malformed_command_is_told() -> None:
    with pytest.raises(MalformedPod, match="args of container train"):
        found(args=[7, "UCX_TLS"])


def kept_words(given: Container) -> list[str]:
    """The words that a saved pod keeps of the commands of a container."""
    settings = [word for setting in next(read_texts([given])).settings for word in setting.words]
    return [*settings, *spelled(given)]


def signs_of_reduced(given: Container) -> tuple[Sign, ...]:
    """The signs of a container whose command and arguments are replaced by the words that are kept of them."""
    env = [msgspec.to_builtins(variable) for variable in given.env or ()]
    reduced = container(name=given.name, command=["redacted", *kept_words(given)], env=env)
    return signs(PodSpec(), [msgspec.json.decode(msgspec.json.encode(reduced), type=Container)])


def test_the_kept_words_say_the_same_as_the_text(subtests: pytest.Subtests) -> None:
    for args, env, _ in ALL:
        with subtests.test(f"{args} {env}"):
            given = decoded(*args, env=env)
            assert signs_of_reduced(given) == signs(PodSpec(), [given])


def test_the_kept_words_have_no_text_of_the_author() -> None:
    given = decoded(f"{SGLANG} --api-key s3cret", "--kv-transfer-config", config("NixlConnector", key="s3cret"))
    assert spelled(given)
    assert "s3cret" not in " ".join(kept_words(given))


PIECES = st.sampled_from(
    [piece for args, _, _ in ALL for arg in args for piece in arg.split()]
    + ["\n", "'", '"', "{", "#", "&", "if ", "$X"]
)


@given(st.lists(PIECES, max_size=12).map(" ".join))
def test_any_pieces_are_read_and_kept_alike(text: str) -> None:
    given_ = decoded(text)
    assert signs_of_reduced(given_) == signs(PodSpec(), [given_])


def test_a_container_without_such_words_says_nothing() -> None:
    container = decoded("python3 train.py --lr 0.1", env={"A": "b"})
    assert list(said_by([container])) == [(container, NOTHING_SAID)]


@pytest.mark.parametrize(
    ("before", "found"), [(LONGEST_OF_ALL // LONGEST - 1, True), (LONGEST_OF_ALL // LONGEST, False)]
)
def test_of_all_containers_of_a_pod_so_much_text_is_read(before: int, *, found: bool) -> None:
    fat = decoded("--disaggregation-mode ".ljust(LONGEST))
    said = list(said_by([*[fat] * before, decoded(SGLANG)]))
    assert bool(said[-1][1].side) is found
    assert said[-1][1].uses_nixl is found
