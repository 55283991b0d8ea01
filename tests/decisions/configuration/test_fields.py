"""The fields of the configuration file: their defaults, and what is refused."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.command import gpu_topology
from webhook.decisions.configuration import Config, admit_policy, parse_config
from webhook.words.errors import ConfigError

DEFAULTS = {
    "defaults": {},
    "resources": [
        {
            "family": "hami",
            "count": "nvidia.com/gpu",
            "memory": "nvidia.com/gpumem",
            "memoryPercentage": "nvidia.com/gpumem-percentage",
            "cores": "nvidia.com/gpucores",
        },
        {
            "family": "volcano",
            "count": "volcano.sh/vgpu-number",
            "memory": "volcano.sh/vgpu-memory",
            "memoryPercentage": "volcano.sh/vgpu-memory-percentage",
            "cores": "volcano.sh/vgpu-cores",
        },
    ],
    "cluster": {
        "hamiVersion": "",
        "kubernetesVersion": "",
        "deviceListStrategy": "envvar",
        "defaultCount": 1,
        "topologyNamespace": "",
        "extendedResources": "auto",
        "hamiSchedulerName": "hami-scheduler",
    },
    "claims": {
        "enabled": False,
        "drivers": [
            {
                "name": "gpu.nvidia.com",
                "deviceClasses": ["gpu.nvidia.com"],
                "partClasses": ["mig.nvidia.com"],
                "wholeTypes": ["gpu"],
                "uuidAttribute": "uuid",
                "preloadsLibrary": False,
            },
            {
                "name": "hami-core-gpu.project-hami.io",
                "deviceClasses": ["hami-core-gpu.project-hami.io"],
                "partClasses": [],
                "wholeTypes": ["hami-gpu"],
                "uuidAttribute": "uuid",
                "preloadsLibrary": True,
            },
        ],
    },
    "remap": {
        "image": "",
        "imagePullPolicy": "",
        "seesGpus": True,
        "runtimeClassName": "",
        "environment": "annotations",
    },
    "nccl": {"pcieP2PLevel": "auto", "nvswitch": {}, "nvlink": {}, "pcie": {}, "multinode": {}},
    "binding": {"readSeconds": 2.0, "topologyMaxAgeSeconds": 600.0, "schedulers": []},
    "placement": {
        "mode": "observe",
        "slices": "observe",
        "objective": "bandwidth",
        "pinSeconds": 60,
        "inFlight": 16,
        "attempts": 5,
        "fullSeconds": 60,
        "releaseSeconds": 300,
        "reserveSeconds": 600,
        "network": [],
    },
    "limits": {
        "containers": 128,
        "envAnnotations": 128,
        "replyBytes": 1048576,
        "segments": 128,
        "devices": 256,
        "gpus": 32,
        "links": 1024,
    },
    "server": {
        "host": "0.0.0.0",  # noqa: S104 - as documented
        "port": 8443,
        "opsPort": 8080,
        "maxReviewBytes": 6291456,
        "drainSeconds": 5.0,
        "keepAliveSeconds": 120,
        "maxConnections": 512,
        "stallSeconds": 30.0,
        "clientAuthority": "",
    },
    "certificates": {
        "secret": "gpu-topology-webhook-tls",
        "service": "gpu-topology-webhook",
        "webhookConfiguration": "gpu-topology-webhook",
        "additionalNames": [],
        "lifetimeDays": 90,
        "authorityLifetimeDays": 730,
        "checkSeconds": 15.0,
        "settleSeconds": 120.0,
        "overlapSeconds": 3600.0,
    },
}


def written_out(config: Config) -> Any:
    return msgspec.json.decode(msgspec.json.encode(config))


@pytest.mark.parametrize("document", [None, {}])
def test_every_field_has_its_default(document: Any) -> None:
    assert written_out(parse_config(document)) == DEFAULTS


def test_the_defaults_written_out_are_a_configuration() -> None:
    assert written_out(parse_config(DEFAULTS)) == DEFAULTS


def test_the_remap_image_is_of_our_own_version() -> None:
    rules = admit_policy(parse_config(None), version="7.8.9")
    assert rules.remap_image == "ghcr.io/gpu-topology-webhook/gpu-topology-remap:7.8.9"
    own = admit_policy(parse_config({"remap": {"image": "registry.local/gt@sha256:0"}}), version="7.8.9")
    assert own.remap_image == "registry.local/gt@sha256:0"


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"sever": {}}, r"^sever: unknown setting\. Did you mean server\?$"),
        ({"server": {"prot": 1}}, r"^server\.prot: unknown setting\. Did you mean server\.port\?$"),
        ({"nccl": {"pcieP2pLevel": "PXB"}}, r"Did you mean nccl\.pcieP2PLevel\?$"),
        (
            {"zzz": 1},
            r"^zzz: unknown setting\. Known here: defaults, resources, cluster, claims, remap, nccl, binding",
        ),
        ({1: 1}, r"^1: unknown setting"),
        ({"server": {"p\u202ert\x1b": 1}}, r"^server\.p\\u202ert\\x1b: unknown setting"),
        ({"server": {"p" * 5000: 1}}, r"^server\.p{60}\.\.\. \(5000 characters\): unknown setting"),
        (
            {"resources": [{"family": "hami", "counts": "x"}]},
            r"^resources\[0\]\.counts: unknown setting\. Did you mean resources\[0\]\.count\?$",
        ),
    ],
)
def test_an_unknown_setting_is_refused_with_a_suggestion(document: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(document)


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({"profil": "pod-peers"}, r"^defaults\.profil: unknown option\. Did you mean defaults\.profile\?$"),
        ({"zzz": ""}, r"Known here: inject, profile, policy"),
        ({"profile": "best"}, r'^defaults\.profile: expected one of exclusive, .* found "best"$'),
        ({"shm-size": ""}, r'^defaults\.shm-size: expected a size such as "8Gi", found ""$'),
        ({"env.1": "x"}, r"^defaults\.env\.1: expected env\. and the name of an environment variable"),
        (
            {"env.CUDA_VISIBLE_DEVICES": "0"},
            r"^defaults\.env\.CUDA_VISIBLE_DEVICES: expected a variable that no profile sets",
        ),
    ],
)
def test_a_bad_default_is_refused(defaults: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        admit_policy(parse_config({"defaults": defaults}), version="0.1.0")


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], r"^the file: expected a mapping, found a list$"),
        ({"server": []}, r"^server: expected a mapping, found a list$"),
        ({"server": {"port": "8443"}}, r"^server\.port: expected a whole number, found a string$"),
        ({"server": {"host": 1}}, r"^server\.host: expected a string \(quote it\), found a whole number$"),
        ({"remap": {"seesGpus": "yes"}}, r"^remap\.seesGpus: expected true or false, found a string$"),
        (
            {"cluster": {"deviceListStrategy": "cdi"}},
            r"^cluster\.deviceListStrategy: expected one of envvar, volume-mounts, cdi-annotations, cdi-cri, found",
        ),
        (
            {"nccl": {"pcieP2PLevel": "LOC"}},
            r"^nccl\.pcieP2PLevel: expected one of auto, PIX, PXB, PHB, SYS, found 'LOC'$",
        ),
        (
            {"nccl": {"nvlink": {"NCCL_ALGO": 1}}},
            r"^nccl\.nvlink.*: expected a string \(quote it\), found a whole number$",
        ),
        ({"defaults": {"inject": True}}, r"^defaults.*: expected a string \(quote it\), found true or false$"),
        ({"resources": {}}, r"^resources: expected a list, found a mapping$"),
        (
            {"placement": {"mode": "yes"}},
            r"^placement\.mode: expected one of off, observe, on-request, on, found 'yes'$",
        ),
        (
            {"placement": {"network": [{"label": "zone"}]}},
            r"^placement\.network\[0\]: object missing required field bandwidth$",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_by_its_name(document: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(document)


OUT_OF_RANGE: list[Any] = [
    ({"server": {"port": -1}}, r"^server\.port: expected a whole number >= 0, found -1$"),
    ({"server": {"port": 65536}}, r"^server\.port: expected a whole number <= 65535, found 65536$"),
    ({"certificates": {"secret": "A"}}, r'^certificates\.secret: expected a name of at most 63.*, found "A"$'),
    ({"certificates": {"service": "x" * 64}}, r"^certificates\.service: expected a name of at most 63"),
    ({"certificates": {"webhookConfiguration": ""}}, r"^certificates\.webhookConfiguration: expected a name"),
    ({"certificates": {"additionalNames": ["a b"]}}, r"^certificates\.additionalNames: expected DNS names and IP"),
    ({"certificates": {"lifetimeDays": 0}}, r"^certificates\.lifetimeDays: expected a whole number >= 1, found 0$"),
    ({"certificates": {"authorityLifetimeDays": 269}}, r"at least three times as long.*found 269 and 90\."),
    (
        {"certificates": {"authorityLifetimeDays": 10**6}},
        r"^certificates\.authorityLifetimeDays: expected a whole number <= 36500, found 1000000$",
    ),
    ({"certificates": {"checkSeconds": 301}}, r"^certificates\.checkSeconds: expected a number <= 300\.0, found 301$"),
    (
        {"certificates": {"settleSeconds": 10}},
        r"^certificates: expected checkSeconds <= .*, found 15\.0, 10\.0 and 3600",
    ),
    (
        {"certificates": {"settleSeconds": 3601}},
        r"^certificates\.settleSeconds: expected a number <= 3600\.0, found 3601$",
    ),
    (
        {"certificates": {"overlapSeconds": 100}},
        r"^certificates: .* settleSeconds <= overlapSeconds, found 15\.0, 120\.0 and 100",
    ),
    (
        {"certificates": {"overlapSeconds": 604801}},
        r"^certificates\.overlapSeconds: expected a number <= 604800\.0, found 604801$",
    ),
    ({"cluster": {"defaultCount": 0}}, r"^cluster\.defaultCount: expected a whole number >= 1, found 0$"),
    ({"cluster": {"topologyNamespace": "a/b"}}, r"^cluster\.topologyNamespace: expected a name of at most 63"),
    ({"server": {"maxReviewBytes": 10}}, r"^server\.maxReviewBytes: expected a whole number >= 1024, found 10$"),
    ({"server": {"drainSeconds": -1}}, r"^server\.drainSeconds: expected a number >= 0\.0, found -1$"),
    ({"server": {"drainSeconds": float("nan")}}, r"^server\.drainSeconds: .* found nan$"),
    ({"server": {"keepAliveSeconds": 0}}, r"^server\.keepAliveSeconds: expected a whole number >= 1, found 0$"),
    ({"server": {"maxConnections": 7}}, r"^server\.maxConnections: expected a whole number >= 8, found 7$"),
    ({"server": {"stallSeconds": 4}}, r"^server\.stallSeconds: expected a number >= 5\.0, found 4$"),
    ({"placement": {"pinSeconds": 0}}, r"^placement\.pinSeconds: expected a whole number >= 1, found 0$"),
    ({"placement": {"attempts": 86401}}, r"^placement\.attempts: expected a whole number <= 86400, found 86401$"),
    ({"placement": {"releaseSeconds": 29}}, r"^placement\.releaseSeconds: expected a whole number >= 30, found 29$"),
    (
        {"placement": {"network": [{"label": "zone", "bandwidth": 0.0}]}},
        r"^placement\.network\[0\]\.bandwidth: expected a number > 0\.0, found 0\.0$",
    ),
    (
        {"placement": {"network": [{"label": "", "bandwidth": 1.0}]}},
        r"^placement\.network\[0\]\.label: expected a string of length >= 1, found 0$",
    ),
    (
        {"placement": {"network": [{"label": "zone", "bandwidth": 1.0, "latency": -1.0}]}},
        r"^placement\.network\[0\]\.latency: expected a number >= 0\.0, found -1\.0$",
    ),
    ({"binding": {"readSeconds": 0}}, r"^binding\.readSeconds: expected a number > 0\.0, found 0$"),
    ({"binding": {"readSeconds": float("inf")}}, r"^binding\.readSeconds: expected a number <= .*, found inf$"),
    ({"binding": {"readSeconds": float("nan")}}, r"^binding\.readSeconds: .*, found nan$"),
    ({"binding": {"topologyMaxAgeSeconds": -1.0}}, r"^binding\.topologyMaxAgeSeconds: .* > 0\.0, found -1\.0$"),
    ({"binding": {"topologyMaxAgeSeconds": float("nan")}}, r"^binding\.topologyMaxAgeSeconds: .*, found nan$"),
    (
        {"nccl": {"multinode": {"NCCL_ALGO": ""}}},
        r"^nccl\.multinode\.NCCL_ALGO: expected a value, found an empty one",
    ),
    ({"nccl": {"nvlink": {"NCCL_ALGO": ""}}}, r"^nccl\.nvlink\.NCCL_ALGO: expected a value, found an empty one"),
    ({"resources": []}, r"^resources: expected a list of length >= 1, found 0$"),
    *(
        (
            {"nccl": {"multinode": {"NCCL_ALGO": value}}},
            r"^nccl\.multinode\.NCCL_ALGO: expected printable characters",
        )
        for value in ("it's", "a\\b", "$(HOME)", "a\nb", "a\tb", "\x1b[0m", " Ring", "Ring ", "\u200b")
    ),
    (
        {"nccl": {"pcie": {"NCCL_ALGO": "x" * 1024}}},
        r"^nccl\.pcie\.NCCL_ALGO: expected at most 1023 characters, found 1024$",
    ),
    *(
        (
            {"nccl": {"nvlink": {name: "1"}}},
            r"^nccl\.nvlink\..*: expected a name of at most 54 letters, digits and _",
        )
        for name in ("", "1A", "A B", "NCCL-ALGO", "NCCL.ALGO", "NCCL_", "A=B", "A\n", "\u00c4", "A" * 55)
    ),
    *(
        (
            {"nccl": {"nvswitch": {name: "1"}}},
            rf"^nccl\.nvswitch\.{name}: the profile of a pod decides it\. Remove the setting$",
        )
        for name in ("NVIDIA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL", "GPU_TOPOLOGY_PROFILE", "NCCL_TOPO_FILE")
    ),
    (
        {"nccl": {"multinode": {"NCCL_P2P_LEVEL": "SYS"}}},
        r"^nccl\.multinode\.NCCL_P2P_LEVEL: its value depends on the GPUs: .* the option nccl-p2p-level\. Remove",
    ),
    (
        {"nccl": {"multinode": {"NCCL_NVLS_ENABLE": "0"}}},
        r"^nccl\.multinode\.NCCL_NVLS_ENABLE: its value depends on the GPUs: .* or the option nvls\. Remove",
    ),
    (
        {"nccl": {"nvlink": {"NCCL_P2P_LEVEL": "nvl"}}},
        r"^nccl\.nvlink\.NCCL_P2P_LEVEL: expected one of NVL, PIX, PXB, PHB, SYS, found \"nvl\"$",
    ),
    (
        {"nccl": {"nvswitch": {"NCCL_NVLS_ENABLE": "on"}}},
        r"^nccl\.nvswitch\.NCCL_NVLS_ENABLE: expected one of 0, 1, 2, found \"on\"$",
    ),
    (
        {"nccl": {"pcieP2PLevel": "PHB", "pcie": {"NCCL_P2P_LEVEL": "PHB"}}},
        r"^nccl\.pcie\.NCCL_P2P_LEVEL: nccl\.pcieP2PLevel says the same\. Remove one of them$",
    ),
    ({"nccl": {"pcie": {"NCCL_CONF_FILE": "/a"}}}, r"^nccl\.pcie\.NCCL_CONF_FILE: .*Remove the setting$"),
]


def test_a_value_out_of_its_range_is_refused(subtests: pytest.Subtests) -> None:
    for document, message in OUT_OF_RANGE:
        with subtests.test(str(document)), pytest.raises(ConfigError, match=message):
            parse_config(document)


# The table for four environments that people copy: docs/nccl.md says what becomes of it, and why not to.
FOUR_ENVIRONMENTS = {
    "nvswitch": {
        "NCCL_NVLS_ENABLE": "1",
        "NCCL_ALGO": "Ring,Tree",
        "NCCL_PROTO": "LL,LL128,Simple",
        "NCCL_MIN_NCHANNELS": "32",
        "NCCL_MAX_NCHANNELS": "32",
    },
    "nvlink": {
        "NCCL_P2P_LEVEL": "NVL",
        "NCCL_ALGO": "Ring",
        "NCCL_PROTO": "LL,LL128",
        "NCCL_MIN_NCHANNELS": "16",
    },
    "pcie": {
        "NCCL_P2P_LEVEL": "PHB",
        "NCCL_SHM_USE_CUDA_MEMCPY": "1",
        "NCCL_ALGO": "Ring",
        "NCCL_PROTO": "Simple",
    },
    "multinode": {
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET_GDR_LEVEL": "5",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_SOCKET_IFNAME": "eth0",
        "NCCL_IB_HCA": "mlx5",
    },
}


def test_a_table_for_four_environments_can_be_entered() -> None:
    rules = admit_policy(parse_config({"nccl": FOUR_ENVIRONMENTS}), version="0.1.0")
    assert rules.fixed_nccl == ()
    assert dict(rules.bound_nccl) == {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}
    assert rules.nccl_tables.partial == {
        "NCCL_MIN_NCHANNELS": {"nvswitch": "32", "nvlink": "16"},
        "NCCL_MAX_NCHANNELS": {"nvswitch": "32"},
        "NCCL_SHM_USE_CUDA_MEMCPY": {"pcie": "1"},
    }
    assert rules.nccl_tables.variables["NCCL_P2P_LEVEL"] == {"nvlink": "NVL", "pcie": "PHB"}
    assert rules.nccl_tables.variables["NCCL_NVLS_ENABLE"] == {"nvswitch": "1"}


def test_a_variable_of_all_link_classes_needs_no_file() -> None:
    same = {name: {"NCCL_DEBUG": "WARN"} for name in ("nvswitch", "nvlink", "pcie")}
    rules = admit_policy(parse_config({"nccl": same}), version="0.1.0")
    assert rules.fixed_nccl == (("NCCL_DEBUG", "WARN"),)
    assert not rules.nccl_tables.partial


@pytest.mark.parametrize("name", ["A", "NCCL_ALGO", "UCX_TLS", "_x9", "A" * 54])
@pytest.mark.parametrize("value", ["0", "^mlx5_0:1,=eth#0", 'a "b" c', "x" * 1023, "\u00fc"])
def test_variables_that_pods_can_carry_are_taken(name: str, value: str) -> None:
    assert parse_config({"nccl": {"multinode": {name: value}}}).nccl.multinode == {name: value}


def test_the_remap_program_is_told_of_tables_only_where_its_own_defaults_differ() -> None:
    usual = admit_policy(parse_config({"nccl": {"multinode": {"NCCL_IB_HCA": "mlx5"}}}), version="0.1.0")
    assert usual.remap_nccl == ""
    same = {name: {"NCCL_DEBUG": "WARN"} for name in ("nvswitch", "nvlink", "pcie")}
    assert admit_policy(parse_config({"nccl": same}), version="0.1.0").remap_nccl == ""
    level = admit_policy(parse_config({"nccl": {"pcieP2PLevel": "SYS"}}), version="0.1.0")
    assert level.remap_nccl == '{"variables":{"NCCL_P2P_LEVEL":{"pcie":"SYS"}}}'


@pytest.mark.parametrize("setting", ["hamiVersion", "kubernetesVersion"])
@pytest.mark.parametrize("text", ["latest", "2", "v", "x2.9"])
def test_a_version_that_is_none_is_refused(setting: str, text: str) -> None:
    with pytest.raises(
        ConfigError, match=rf'^cluster\.{setting}: expected a version such as "2\.10\.0", found "{text}"$'
    ):
        admit_policy(parse_config({"cluster": {setting: text}}), version="0.1.0")


def test_a_configured_version_overrules_a_detected_one() -> None:
    rules = admit_policy(parse_config({"cluster": {"hamiVersion": "v2.8.1"}}), version="0.1.0")
    assert str(rules.versions.hami) == "2.8.1"
    assert rules.versions.kubernetes is None


def check(path: Path) -> tuple[int, str, str]:
    done = gpu_topology("serve", "--check-config", "--config", path)
    return done.code, done.out, done.err


def test_a_good_file_passes_the_check(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("server: {port: 9443}\ndefaults: {shm-size: 16Gi, env.NCCL_DEBUG: INFO}\n")
    assert check(path) == (0, f"{path}: ok\n", "")


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", "---\n", "{}\n"])
def test_an_empty_file_is_all_defaults(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert check(path) == (0, f"{path}: ok\n", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("server: {prot: 1}\n", "server.prot: unknown setting. Did you mean server.port?"),
        ("defaults: {nvls: sure}\n", 'defaults.nvls: expected one of auto, on, off, found "sure"'),
        ("defaults: {nvsl: auto}\n", "defaults.nvsl: unknown option. Did you mean defaults.nvls?"),
        ("nccl: {pcie: {NCCL_P2P_LEVEL: LOC}}\n", "nccl.pcie.NCCL_P2P_LEVEL: expected one of NVL, PIX, PXB, PHB, SYS"),
        ("a: 1\n---\nb: 2\n", "expected one YAML document, found 2"),
        ("cluster: {hamiVersion: 2.9}\n", "cluster.hamiVersion: expected a string (quote it), found a number"),
    ],
)
def test_a_bad_file_fails_the_check_with_its_name_and_the_setting(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    code, out, err = check(path)
    assert (code, out) == (1, "")
    assert err.startswith(f"gpu-topology: {path}: {said}")


@pytest.mark.parametrize(
    ("text", "line"),
    [("server: [\n", 2), ("server:\n  port: 1\n port: 2\n", 3), ("a: 1\nb: 2\na: 3\n", 3), ("\n\n'x\n", 4)],
)
def test_a_syntax_error_names_the_line(tmp_path: Path, text: str, line: int) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    code, out, err = check(path)
    assert (code, out) == (1, "")
    assert err.startswith(f"gpu-topology: {path} line {line}: expected YAML: ")


def test_a_section_with_every_line_commented_out_is_all_defaults() -> None:
    assert parse_config({"server": None, "remap": None}) == Config()


@pytest.mark.parametrize("setting", ["containers", "envAnnotations", "segments", "devices", "gpus", "links"])
def test_a_limit_is_one_or_more(setting: str) -> None:
    assert written_out(parse_config({"limits": {setting: 1}}))["limits"][setting] == 1
    with pytest.raises(ConfigError, match=rf"^limits\.{setting}: expected a whole number >= 1, found 0$"):
        parse_config({"limits": {setting: 0}})


def test_a_reply_has_room_for_more_than_its_patch() -> None:
    assert parse_config({"limits": {"replyBytes": 131072}}).limits.reply_bytes == 131072
    with pytest.raises(ConfigError, match=r"^limits\.replyBytes: expected a whole number >= 131072, found 131071$"):
        parse_config({"limits": {"replyBytes": 131071}})


def test_no_node_may_have_more_gpus_than_a_topology() -> None:
    assert parse_config({"limits": {"gpus": 64}}).limits.gpus == 64
    with pytest.raises(ConfigError, match=r"^limits\.gpus: expected a whole number <= 64, found 65$"):
        parse_config({"limits": {"gpus": 65}})


def test_the_default_variables_are_within_the_limit() -> None:
    defaults = {"env.NCCL_DEBUG": "WARN", "env.UCX_TLS": "all", "shm-size": "16Gi"}
    assert parse_config({"defaults": defaults, "limits": {"envAnnotations": 2}}).defaults == defaults
    expected = r"^defaults: expected at most 1 variables \(limits\.envAnnotations\), found 2$"
    with pytest.raises(ConfigError, match=expected):
        parse_config({"defaults": defaults, "limits": {"envAnnotations": 1}})
