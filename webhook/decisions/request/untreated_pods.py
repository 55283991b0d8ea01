"""Pods with GPU requests that HAMi's webhook or its scheduler will pass over.

HAMi's webhook sets its scheduler's name in pods without the label ``hami.io/webhook: ignore``. Since 2.7 it leaves
pods alone that name another scheduler; before, it overwrote the name. It denies GPU pods with a node. Sources: HAMi
pkg/scheduler/webhook.go; charts/hami/templates/scheduler/webhook.yaml.
"""

import enum
from collections.abc import Iterator
from typing import NamedTuple

from webhook.decisions.cluster_facts import ClusterFacts
from webhook.decisions.configuration import AdmitPolicy
from webhook.objects.pod import Namespace, Pod, PodSpec
from webhook.words import names
from webhook.words.catalogue import cards
from webhook.words.catalogue.entry import Message
from webhook.words.errors import shorten

_KATA = "kata"
"""A part of the names of Kata Containers' runtime classes: kata-qemu, kata-clh, kata-qemu-nvidia-gpu."""


class Cause(enum.StrEnum):
    """The reason why HAMi will not treat a pod."""

    OTHER_SCHEDULER = "other-scheduler"
    WEBHOOK_IGNORED = "webhook-ignored"
    NODE_PRESET = "node-preset"
    VIRTUAL_MACHINE = "virtual-machine"


class Untreated(NamedTuple):
    """One cause, with its message for people."""

    cause: Cause
    message: Message


def untreated(pod: Pod, namespace: Namespace, policy: AdmitPolicy, cluster: ClusterFacts) -> Iterator[Untreated]:
    """Yields the causes why HAMi will not give the pod its GPUs, each once.

    Of a pod with an allocation by HAMi only the runtime class is examined.

    Args:
        pod: A pod that asks for GPUs of HAMi.
        namespace: Its namespace.
        policy: The configuration.
        cluster: The facts about the cluster.
    """
    spec = pod.spec or PodSpec()
    if names.HAMI_ALLOCATED_NODE not in pod.annotations:
        yield from _unscheduled(pod, namespace, policy, cluster)
    if spec.runtime_class_name and _KATA in spec.runtime_class_name:
        message = cards.KATA_RUNTIME_CLASS.say(name=shorten(spec.runtime_class_name))
        yield Untreated(Cause.VIRTUAL_MACHINE, message)


def _unscheduled(pod: Pod, namespace: Namespace, policy: AdmitPolicy, cluster: ClusterFacts) -> Iterator[Untreated]:
    spec = pod.spec or PodSpec()
    scheduler = spec.scheduler_name or names.DEFAULT_SCHEDULER
    if scheduler not in (policy.hami_scheduler_name, names.DEFAULT_SCHEDULER) and cluster.keeps_scheduler_names:
        yield Untreated(Cause.OTHER_SCHEDULER, cards.OTHER_SCHEDULER.say(scheduler=shorten(scheduler)))
    ignoring = [
        holder
        for holder, labels in (("pod", pod.labels), (f"namespace {namespace.name}", namespace.labels))
        if labels.get(names.HAMI_WEBHOOK) == "ignore"
    ]
    if ignoring and scheduler != policy.hami_scheduler_name:
        yield Untreated(Cause.WEBHOOK_IGNORED, cards.HAMI_WEBHOOK_IGNORED.say(holder=ignoring[0]))
    if spec.node_name:
        yield Untreated(Cause.NODE_PRESET, cards.NODE_PRESET.say(node=shorten(spec.node_name)))
