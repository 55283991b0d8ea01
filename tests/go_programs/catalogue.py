"""The programs that tests build, one declaration each. ``python -m tests.go_programs`` builds them all ahead of time.

A new program needs a directory below ``modules/`` with a ``go.mod`` (``go mod init``, ``go get -tool
PACKAGE@VERSION``), a ``GoProgram`` here and in ``ALL``, and a fixture that returns ``go_program(THAT)``.
"""

from pathlib import Path

from tests.go_programs.build import GoProgram

MODULES = Path(__file__).with_name("modules")
KUBEBUILDER_ASSETS = "KUBEBUILDER_ASSETS"

# Without these stamps a component reports the version v0.0.0 (component-base/version/base.go).
_KUBERNETES_STAMPS = {
    "k8s.io/component-base/version.gitVersion": "{version}",
    "k8s.io/component-base/version.gitMajor": "{major}",
    "k8s.io/component-base/version.gitMinor": "{minor}",
    "k8s.io/component-base/version.gitTreeState": "clean",
}

ETCD = GoProgram("etcd", "go.etcd.io/etcd/server/v3", MODULES / "kubernetes", assets=KUBEBUILDER_ASSETS)
KUBE_APISERVER = GoProgram(
    "kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    MODULES / "kubernetes",
    stamps=_KUBERNETES_STAMPS,
    assets=KUBEBUILDER_ASSETS,
)
KUBE_SCHEDULER = GoProgram(
    "kube-scheduler",
    "k8s.io/kubernetes/cmd/kube-scheduler",
    MODULES / "kubernetes",
    stamps=_KUBERNETES_STAMPS,
    assets=KUBEBUILDER_ASSETS,
    assets_are_whole=False,  # the archives of kubebuilder have none
)
KUBE_CONTROLLER_MANAGER = GoProgram(
    "kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    MODULES / "kubernetes",
    stamps=_KUBERNETES_STAMPS,
    assets=KUBEBUILDER_ASSETS,
    assets_are_whole=False,
)
KUBECTL = GoProgram(
    "kubectl",
    "k8s.io/kubernetes/cmd/kubectl",
    MODULES / "kubectl",
    stamps=_KUBERNETES_STAMPS,
    assets=KUBEBUILDER_ASSETS,
    assets_are_whole=False,
)


def _next_kubernetes(name: str) -> GoProgram:
    return GoProgram(
        f"{name}-1.37",
        f"k8s.io/kubernetes/cmd/{name}",
        MODULES / "kubernetes-1.37",
        stamps=_KUBERNETES_STAMPS,
        assets="NEXT_KUBERNETES_ASSETS",
        assets_are_whole=False,
    )


NEXT_KUBERNETES = tuple(
    _next_kubernetes(name) for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager")
)
"""The newest release of Kubernetes, for the tests of claims, whose API changes with each release. It runs with the etcd
of the other release."""

# With the stand-in for NVML it publishes the same as with real cards.
NVIDIA_DRA_DRIVER = GoProgram(
    "gpu-kubelet-plugin",
    "sigs.k8s.io/dra-driver-nvidia-gpu/cmd/gpu-kubelet-plugin",
    MODULES / "nvidia-dra",
    cgo=True,
    assets="NVIDIA_DRA_ASSETS",
)

NVIDIA_CTK = GoProgram(
    "nvidia-ctk",
    "github.com/NVIDIA/nvidia-container-toolkit/cmd/nvidia-ctk",
    MODULES / "nvidia-ctk",
    cgo=True,  # it calls NVML
    assets="NVIDIA_CTK_ASSETS",
)


def _hami_scheduler(release: str) -> GoProgram:
    return GoProgram(
        f"hami-scheduler-{release}",
        "github.com/Project-HAMi/HAMi/cmd/scheduler",
        MODULES / f"hami-{release}",
        cgo=True,  # through NVIDIA's bindings for NVML, which the scheduler never calls
        assets="HAMI_ASSETS",
        assets_are_whole=False,  # one release may be ready-made and the other built
    )


HAMI_SCHEDULERS = {release: _hami_scheduler(release) for release in ("2.9.0", "2.10.0")}


def _hami_device_plugin(release: str) -> GoProgram:
    return GoProgram(
        f"hami-device-plugin-{release}",
        "github.com/Project-HAMi/HAMi/cmd/device-plugin/nvidia",
        MODULES / f"hami-{release}",
        cgo=True,  # it calls NVML
        assets="HAMI_ASSETS",
        assets_are_whole=False,
    )


HAMI_DEVICE_PLUGINS = {release: _hami_device_plugin(release) for release in HAMI_SCHEDULERS}

# Its tests need no service discovery, whose cloud clients are a fifth of the compiled code.
PROMTOOL = GoProgram(
    "promtool",
    "github.com/prometheus/prometheus/cmd/promtool",
    MODULES / "prometheus",
    tags=("remove_all_sd",),
    assets="PROMTOOL_ASSETS",
)

HELM = GoProgram("helm", "helm.sh/helm/v4/cmd/helm", MODULES / "helm", assets="HELM_ASSETS")

ACTIONLINT = GoProgram(
    "actionlint", "github.com/rhysd/actionlint/cmd/actionlint", MODULES / "actionlint", assets="ACTIONLINT_ASSETS"
)

# Only the benchmark runs this webhook, so the tests never build it.
POD_IDENTITY_WEBHOOK = GoProgram(
    "amazon-eks-pod-identity-webhook",
    "github.com/aws/amazon-eks-pod-identity-webhook",
    MODULES / "pod-identity-webhook",
    stamps={"main.webhookVersion": "{version}"},
    assets="POD_IDENTITY_WEBHOOK_ASSETS",
)

KUEUE = GoProgram("kueue", "sigs.k8s.io/kueue/cmd/kueue", MODULES / "kueue", assets="KUEUE_ASSETS", on_demand=True)

# Karpenter with a provider whose machines are Node objects: its decisions are real, and no cloud is asked.
KARPENTER = GoProgram(
    "kwok", "sigs.k8s.io/karpenter/kwok", MODULES / "karpenter", assets="KARPENTER_ASSETS", on_demand=True
)

ON_DEMAND = (KUEUE, KARPENTER)
KUBERNETES = (ETCD, KUBE_APISERVER, KUBE_SCHEDULER, KUBE_CONTROLLER_MANAGER, KUBECTL)
ALL = (
    *KUBERNETES,
    *NEXT_KUBERNETES,
    *HAMI_SCHEDULERS.values(),
    *HAMI_DEVICE_PLUGINS.values(),
    NVIDIA_DRA_DRIVER,
    NVIDIA_CTK,
    PROMTOOL,
    HELM,
    ACTIONLINT,
)
