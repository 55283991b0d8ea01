"""What a pod demands of its GPUs: its containers, its options and the configuration in one value."""

from webhook.config import AdmitPolicy
from webhook.model.choices import Profile
from webhook.model.options import Options
from webhook.resolve.demand import GpuContainer, GpuDemand, Requirements


def required(options: Options) -> Requirements:
    """What a pod with these options requires of its GPUs."""
    return Requirements(nvlink=options.require_nvlink, min_bandwidth=options.min_bandwidth, policy=options.policy)


def gpu_demand(
    containers: tuple[GpuContainer, ...],
    family: str,
    options: Options,
    policy: AdmitPolicy,
    profile: Profile,
    *,
    host_network: bool,
) -> GpuDemand:
    """The demand of a pod.

    Args:
        containers: All that request GPUs, init containers first.
        family: Of their GPU resources.
        options: Of the pod.
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
