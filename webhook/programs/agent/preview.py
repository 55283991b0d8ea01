"""The preview of the agent's publication, for people to read. It needs no cluster and changes none."""

import io
from collections.abc import Iterator
from datetime import UTC, datetime

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from webhook.hardware.topology.health import node_health
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.illness import ill_gpus
from webhook.programs.agent.look import Look, is_readable
from webhook.programs.agent.publication import Memory, NodeChange, Object, Observed, PublishOptions, decide, sound
from webhook.programs.agent.taints import EFFECT, ill_with_links
from webhook.words import names

_TIMELESS = datetime(1970, 1, 1, tzinfo=UTC)


def preview(topology: NodeTopology, options: PublishOptions) -> str:
    """Returns the ConfigMap as YAML, with label, annotations, events and findings in comments.

    The content is that of a first round, for a Node without annotations and without an earlier publication.

    Args:
        topology: The discovered topology of the node.
        options: The options of publication. An empty namespace is left out.
    """
    seen = sound(topology)
    look = Look(seen, node_health(seen))
    node: Object = {"metadata": {"name": seen.node, "uid": "", "resourceVersion": ""}}
    observed = Observed(node=node, config_map=None)
    publication = decide(observed, look, memory=Memory(), options=options, at=_TIMELESS)
    change = publication.node or NodeChange(patch={"metadata": {}})
    annotations = change.patch["metadata"].get("annotations", {})
    lines = [f"# Node {seen.node}: label {names.NVLINK}={look.health.state}"]
    lines += [f"# Node {seen.node}: annotation {key}={value}" for key, value in annotations.items()]
    lines += [f"# Finding: {finding}" for finding in look.health.findings]
    lines += [
        f"# Event {event['type']} {event['reason']}: {event['note']}" for event in (*publication.events, *change.events)
    ]
    lines += [f"# Taint of the devices of {said}" for said in _taints(look, options)]
    lines.append(f"# ConfigMap, owned by Node {seen.node}:")
    return "\n".join(lines) + "\n" + _yaml(_readable(publication.config_map or {}))


def _taints(look: Look, options: PublishOptions) -> Iterator[str]:
    if options.taint_devices and is_readable(look.topology):
        for gpu in ill_with_links(ill_gpus(look, None, known={}, kept=()), look.topology):
            key, value = gpu.taint()
            yield f"{gpu.uuid}: {key}={value}:{EFFECT}"


def _readable(config_map: Object) -> Object:
    metadata = {
        key: value for key, value in config_map["metadata"].items() if value and key != "ownerReferences"
    }  # only the cluster knows the uid of the owner
    data = {key: LiteralScalarString(text) for key, text in config_map["data"].items()}
    return {**config_map, "metadata": metadata, "data": data}


def _yaml(document: Object) -> str:
    yaml = YAML(typ="rt", pure=True)
    yaml.width = 1 << 20  # lines are as long as they are published
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()
