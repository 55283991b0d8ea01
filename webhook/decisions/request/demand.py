"""The demand of a pod on its GPUs: its containers, its options and the configuration in one value."""

from webhook.decisions.configuration import AdmitPolicy
from webhook.decisions.options import Options
from webhook.decisions.resolve.demand import GpuContainer, GpuDemand, Requirements
from webhook.objects.pod import Container, InitContainer
from webhook.words.choices import Profile


def required(options: Options) -> Requirements:
    """Returns the requirements of a pod with these options."""
    return Requirements(nvlink=options.require_nvlink, min_bandwidth=options.min_bandwidth, policy=options.policy)


def gpu_container(container: Container, count: int, *, visible_key: str, selected: bool) -> GpuContainer:
    """Returns a container that requests GPUs, in the form in which an allocation is resolved.

    Args:
        container: The container.
        count: The number of GPUs that it requests.
        visible_key: The annotation for its CUDA indices; empty if it has none.
        selected: Whether the profile applies to it.

    Raises:
        MalformedPod: its security context has another type than in a container.
    """
    return GpuContainer(
        name=container.name,
        count=count,
        is_init=isinstance(container, InitContainer),
        visible_key=visible_key,
        selected=selected,
        sees_node=container.is_privileged,
        keeps_gpus=not isinstance(container, InitContainer) or container.restart_policy == "Always",
    )


def gpu_demand(
    containers: tuple[GpuContainer, ...],
    family: str,
    options: Options,
    policy: AdmitPolicy,
    profile: Profile,
    *,
    host_network: bool,
) -> GpuDemand:
    """Returns the demand of a pod.

    Args:
        containers: All containers that request GPUs, init containers first.
        family: The family of their GPU resources.
        options: The options of the pod.
        policy: The configuration.
        profile: Any but ``observe``.
        host_network: Whether the pod is in the network namespace of its node.
    """
    return GpuDemand(
        profile=profile,
        containers=containers,
        family=family,
        requirements=required(options),
        on_violation=options.on_violation,
        group=options.group,
        nccl=policy.nccl_tables,
        host_network=host_network,
    )
