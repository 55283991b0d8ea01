"""``gpu-topology verify --publish``: the measurement as an annotation of a pod and as an Event on it."""

import asyncio
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from webhook.cli.complaint import complain
from webhook.cluster.api.api_server import ApiServer, connect_objects
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.errors import ApiRefused, NotFound
from webhook.decisions.allocation.reader import DIALECTS, read_allocation
from webhook.hardware.measurement.report import BandwidthReport, Verdict
from webhook.hardware.measurement.summary import Summary, format_summary, summary
from webhook.objects.event import Reporter, event_manifest
from webhook.words import names
from webhook.words.catalogue.entry import Message
from webhook.words.catalogue.traffic import MEASURED_AS_EXPECTED, MEASURED_BELOW_EXPECTED
from webhook.words.errors import FormatError, GpuTopologyError
from webhook.words.printable import printable

AS_EXPECTED, BELOW_EXPECTED = "BandwidthVerified", "BandwidthBelowExpected"
_RIGHTS = (
    "Who publishes must be allowed to get and patch the pod, and to create events of events.k8s.io in its namespace: "
    "docs/topology.md, Publish a measurement"
)


def publish(report: BandwidthReport, cluster: Where, namespace: str, name: str) -> str:
    """Write the report's part about the pod's GPUs onto the pod, and return a sentence about it.

    Raises:
        GpuTopologyError: the pod is missing, has none of the GPUs of the report, or may not be changed.
    """
    return asyncio.run(_publish(report, cluster, namespace, name))


async def _publish(report: BandwidthReport, cluster: Where, namespace: str, name: str) -> str:
    api = connect_objects(cluster, user_agent=names.EXPLAIN_USER_AGENT)
    try:
        pod = await api.pod(namespace, name)
        found = _of_pod(report, pod, f"{namespace}/{name}")
        await _write(api, pod, found)
        try:
            await api.create_event(_event(pod, found))
        except GpuTopologyError as error:
            complain(f"gpu-topology: left out: {error}")
    except NotFound:
        raise GpuTopologyError(f"there is no pod {printable(namespace)}/{printable(name)}") from None
    except ApiRefused as error:
        raise GpuTopologyError(f"{error}. {_RIGHTS}") from None
    finally:
        await api.close()
    return f"published on pod {printable(namespace)}/{printable(name)}: {_note(found)}"


def _of_pod(report: BandwidthReport, pod: Mapping[str, Any], holder: str) -> Summary:
    own = given_cards(pod["metadata"].get("annotations") or {}, holder)
    found = summary(report, own or None)
    if found is None:
        raise GpuTopologyError(
            f"the report measured no two of the GPUs that pod {printable(holder)} was given: measure in the pod itself"
        )
    return found


def given_cards(annotations: Mapping[str, str], holder: str) -> frozenset[str]:
    """Return the UUIDs of the GPUs that schedulers gave a pod, as far as its annotations have them.

    Args:
        annotations: The annotations of the pod.
        holder: The name of the pod in messages.
    """
    found: set[str] = set()
    for dialect in DIALECTS:
        try:
            allocation = read_allocation(annotations, family=dialect.family, holder=holder)
        except FormatError:
            continue
        found |= {device.uuid for device in allocation.devices if device.uuid}
    return frozenset(found)


async def _write(api: ApiServer, pod: Mapping[str, Any], found: Summary) -> None:
    metadata = pod["metadata"]
    # The uid is included because a new pod of this name has other GPUs.
    patch = {"metadata": {"uid": metadata["uid"], "annotations": {names.MEASURED: format_summary(found)}}}
    await api.merge_pod(metadata["namespace"], metadata["name"], patch, field_manager=names.VERIFY_FIELD_MANAGER)


def _event(pod: Mapping[str, Any], found: Summary) -> dict[str, Any]:
    metadata = pod["metadata"]
    regarding = {"apiVersion": "v1", "kind": "Pod"} | {key: metadata[key] for key in ("namespace", "name", "uid")}
    is_fine = found.verdict is Verdict.AS_EXPECTED
    return event_manifest(
        regarding,
        Reporter(names.VERIFY_CONTROLLER, platform.node(), "Verify"),
        namespace=metadata["namespace"],
        reason=AS_EXPECTED if is_fine else BELOW_EXPECTED,
        note=str(_note(found)),
        at=datetime.now(UTC),
        seed=found.at,
        warning=not is_fine,
    )


def _note(found: Summary) -> Message:
    entry = MEASURED_AS_EXPECTED if found.verdict is Verdict.AS_EXPECTED else MEASURED_BELOW_EXPECTED
    slowest = found.slowest
    said = f"; the slowest has {slowest.measured_gbps:g} GB/s" if slowest else ""
    if slowest and slowest.expected_gbps is not None:
        said = f"; the slowest has {slowest.measured_gbps:g} of {slowest.expected_gbps:g} GB/s"
    return entry.say(cards=len(found.cards), fine=found.pairs - found.worse, pairs=found.pairs, slowest=said)
