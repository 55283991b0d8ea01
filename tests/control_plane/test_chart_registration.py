"""The registration of the chart at a real API server: who reaches us, and who does not depend on us."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import (
    ApiException,
    CoreV1Api,
    RbacAuthorizationV1Api,
    RbacV1Subject,
    V1ClusterRoleBinding,
    V1Namespace,
    V1ObjectMeta,
    V1RoleRef,
    V1ServiceAccount,
)
from kubernetes.client.exceptions import ConflictException

from tests.chart.registration import installed_registration
from tests.control_plane.accounts import RBAC, namespace_for_pods
from tests.control_plane.control_plane import ControlPlane, wait_until_allowed
from tests.control_plane.manifests import apply, path_of, request
from tests.control_plane.registration import (
    RESTRICTED,
    Answer,
    create_pod,
    created,
    gpu_container,
    gpu_pod,
    wait_until_asked,
    write_state,
)
from tests.control_plane.scheduling import allocate, bind, stored
from tests.hardware.topology.machines import h20
from tests.ports import reserved_port
from tests.programs.server.conftest import Starter, until

pytestmark = pytest.mark.cluster

SCHEDULERS = "hami-system"
Create = Callable[..., Answer]
PLAIN = {"name": "main", "image": "x", "securityContext": RESTRICTED}


@pytest.fixture(scope="module")
def opted_in(admin: CoreV1Api) -> str:
    """A namespace."""
    labels = {"gpu.topology/injection": "enabled"}
    return namespace_for_pods(admin, V1ObjectMeta(generate_name="registered-", labels=labels))


@pytest.fixture(scope="module")
def nowhere(control_plane: ControlPlane) -> Iterator[dict[str, Any]]:
    """The registration, to a port on which nothing listens; it is gone at the end, wherever it leads by then."""
    with reserved_port() as port:
        configuration = installed_registration(f"https://127.0.0.1:{port}", control_plane.ca_file.read_bytes())
        yield configuration
        request(control_plane, "DELETE", path_of(configuration))


@pytest.fixture
def nobody_answers(control_plane: ControlPlane, opted_in: str, nowhere: dict[str, Any]) -> Create:
    """It is in force; creates pods, by default in the namespace that opted in."""

    def create(pod: dict[str, Any], place: str = opted_in) -> Answer:
        return create_pod(control_plane, place, pod, dry_run=True)

    assert apply(control_plane, nowhere).status_code in {200, 201}
    until(lambda: create(gpu_pod("probe", {})).status == 500, "a call to our webhook")
    return create


def pod(name: str, *containers: dict[str, Any], annotations: Any = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": list(containers) or [PLAIN], **spec}}


def with_limit(**limits: str) -> dict[str, Any]:
    return PLAIN | {"resources": {"limits": limits}}


@pytest.mark.parametrize(
    "waiting",
    [
        pytest.param(pod("gpus", gpu_container(gpus=1)), id="one GPU"),
        pytest.param(pod("memory", with_limit(**{"nvidia.com/gpumem": "3000"})), id="a slice by its memory alone"),
        pytest.param(pod("volcano", with_limit(**{"volcano.sh/vgpu-number": "2"})), id="Volcano"),
        pytest.param(pod("mig", with_limit(**{"nvidia.com/mig-1g.5gb": "1"})), id="MIG"),
        pytest.param(pod("second", PLAIN, gpu_container("second")), id="in its second container"),
        pytest.param(pod("init", initContainers=[gpu_container("first")]), id="in an init container"),
        pytest.param(pod("asking", annotations={"gpu.topology/inject": "true"}), id="by an annotation"),
        pytest.param(pod("forged", annotations={"gpu.topology/link": "NVSwitch"}), id="with an annotation of ours"),
        pytest.param(
            gpu_pod("out", {"gpu.topology/link": "NVSwitch"}, **{"gpu.topology/injection": "disabled"}),
            id="opted out by its label, with an output",
        ),
        pytest.param(pod("many", annotations={f"example.com/{number}": "" for number in range(1001)}), id="too large"),
    ],
)
def test_pods_that_may_be_ours_wait_for_us(nobody_answers: Create, waiting: dict[str, Any]) -> None:
    answer = nobody_answers(waiting)
    assert answer.status == 500
    assert 'failed calling webhook "pods.gpu.topology"' in answer.message


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param(pod("plain"), id="no resources"),
        pytest.param(pod("cpu", with_limit(cpu="1", memory="1Gi")), id="CPU and memory"),
        pytest.param(pod("other", with_limit(**{"amd.com/gpu": "1"})), id="other devices"),
        pytest.param(pod("noted", annotations={"team": "ml", "hami.io/vgpu-mode": "mig"}), id="others' annotations"),
        pytest.param(pod("init", initContainers=[PLAIN | {"name": "first"}]), id="with an init container"),
        pytest.param(
            gpu_pod("out", {"gpu.topology/profile": "exclusive"}, **{"gpu.topology/injection": "disabled"}),
            id="opted out by its label",
        ),
    ],
)
def test_pods_that_cannot_be_ours_do_not_depend_on_us(nobody_answers: Create, plain: dict[str, Any]) -> None:
    answer = nobody_answers(plain)
    assert answer.status == 201, answer.message


@pytest.mark.parametrize("name", ["kube-system", "gpu-topology"])
def test_our_own_namespace_and_that_of_the_cluster_never_depend_on_us_whatever_their_labels(
    nobody_answers: Create, admin: CoreV1Api, name: str
) -> None:
    with suppress(ConflictException):  # it was there before
        admin.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=name)))
    with suppress(ConflictException):
        admin.create_namespaced_service_account(name, V1ServiceAccount(metadata=V1ObjectMeta(name="default")))
    admin.patch_namespace(name, {"metadata": {"labels": {"gpu.topology/injection": "enabled"}}})
    try:
        answer = nobody_answers(gpu_pod("train", {}), name)
    finally:
        admin.patch_namespace(name, {"metadata": {"labels": {"gpu.topology/injection": None}}})
    assert answer.status == 201, answer.message


def test_a_namespace_that_has_not_opted_in_does_not_depend_on_us(nobody_answers: Create, namespace: str) -> None:
    assert nobody_answers(gpu_pod("train", {}), namespace).status == 201


@pytest.fixture(scope="module")
def scheduler(control_plane: ControlPlane, admin: CoreV1Api) -> Iterator[CoreV1Api]:
    """HAMi's scheduler, in the namespace that HAMi's documents install it to."""
    with binding_as(control_plane, admin, SCHEDULERS, "hami-scheduler") as client:
        yield client


@contextmanager
def binding_as(control_plane: ControlPlane, admin: CoreV1Api, namespace: str, account: str) -> Iterator[CoreV1Api]:
    """A new service account that schedules."""
    with suppress(ConflictException):
        admin.create_namespace(V1Namespace(metadata=V1ObjectMeta(name=namespace)))
    admin.create_namespaced_service_account(namespace, V1ServiceAccount(metadata=V1ObjectMeta(name=account)))
    RbacAuthorizationV1Api(admin.api_client).create_cluster_role_binding(
        V1ClusterRoleBinding(
            metadata=V1ObjectMeta(name=f"{namespace}-{account}"),
            role_ref=V1RoleRef(api_group=RBAC, kind="ClusterRole", name="system:kube-scheduler"),
            subjects=[RbacV1Subject(kind="ServiceAccount", name=account, namespace=namespace)],
        )
    )
    with control_plane.client(control_plane.kubeconfig_for(namespace, account)) as client:
        wait_until_allowed(client, "default", "create", "bindings")
        yield CoreV1Api(client)


def test_only_bindings_by_a_scheduler_of_gpus_wait_for_us(
    nobody_answers: Create, control_plane: ControlPlane, admin: CoreV1Api, opted_in: str, scheduler: CoreV1Api
) -> None:
    assert nobody_answers(pod("probe")).status == 201
    created(control_plane, opted_in, pod("train"))
    with pytest.raises(ApiException, match=r'failed calling webhook \\"bindings\.gpu\.topology\\"') as info:
        bind(scheduler, opted_in, "train")
    assert info.value.status == 500
    assert stored(admin, opted_in, "train")[0] is None
    with binding_as(control_plane, admin, opted_in, "hami-scheduler") as of_that_name_elsewhere:
        bind(of_that_name_elsewhere, opted_in, "train")
    assert stored(admin, opted_in, "train")[0] == "h20-node-1"


@pytest.fixture
def served(control_plane: ControlPlane, opted_in: str, nowhere: dict[str, Any], tmp_path: Path) -> Iterator[None]:
    """A server answers where the registration leads."""
    starter = Starter(tmp_path)
    state = write_state(tmp_path / "state", opted_in, h20(), {})
    try:
        server = starter("--kubeconfig", str(control_plane.kubeconfig), state=state)
        configuration = installed_registration(server.url, server.authority.read_bytes())
        assert path_of(configuration) == path_of(nowhere)
        assert apply(control_plane, configuration).status_code in {200, 201}
        wait_until_asked(control_plane, opted_in)
        yield
    finally:
        starter.stop_all()


@pytest.mark.usefixtures("served")
def test_a_pod_gets_structure_and_values_through_the_registration_of_the_chart(
    control_plane: ControlPlane, admin: CoreV1Api, opted_in: str, scheduler: CoreV1Api
) -> None:
    created(control_plane, opted_in, gpu_pod("told", {"team": "ml"}))
    allocate(admin, opted_in, "told", (), (2, 5))
    bind(scheduler, opted_in, "told")
    node, annotations = stored(admin, opted_in, "told")
    link, order = (annotations[f"gpu.topology/{key}"] for key in ("link", "ring-order"))
    assert (node, link, order) == ("h20-node-1", "NVSwitch", "2,5")
