"""A cluster as it is now, as the planner sees it: pods, nodes and what the agents published, read once."""

import asyncio
from collections.abc import Mapping

import msgspec

from webhook.cli.complaint import complain
from webhook.config import BindingSettings
from webhook.kube import resources
from webhook.kube.api_server import SECONDS
from webhook.kube.contexts import Where
from webhook.kube.errors import ApiError, ApiRefused, Malformed
from webhook.kube.pages import pages
from webhook.kube.resources import Resource
from webhook.kube.session import Session, connect
from webhook.kube.versioned import VersionedObject, read_versioned
from webhook.model import names
from webhook.model.errors import GpuTopologyError
from webhook.model.nesting import decode_answer
from webhook.place.world import World
from webhook.planner.mirrors import Mirrors
from webhook.printable import printable

_FORBIDDEN = 403
_PAGE_OBJECTS = 500


class _Owner(msgspec.Struct):
    uid: str = ""


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    owner_references: list[_Owner] | None = None


class _Object(msgspec.Struct):
    metadata: _Metadata


_OBJECT = msgspec.json.Decoder(_Object)


def read_world(where: Where) -> World:
    """What there is at this moment.

    ConfigMaps and Leases of agents that may not be read are left out, with a note on standard error: then HAMi's
    annotations tell of links.

    Args:
        where: Which cluster.

    Raises:
        GpuTopologyError: the API server cannot be asked, or its pods and nodes may not be listed.
    """
    return asyncio.run(_read(where))


async def _read(where: Where) -> World:
    session = connect(where, user_agent=names.EXPLAIN_USER_AGENT, seconds=SECONDS)
    try:
        nodes = await _needed(session, resources.WHOLE_NODES)
        pods = await _needed(session, resources.PODS)
        config_maps = await _wanted(session, resources.ALL_CONFIG_MAPS)
        leases = await _wanted(session, resources.ALL_LEASES)
    finally:
        await session.close()
    mirrors = Mirrors(max_age=BindingSettings().topology_max_age_seconds, wake=_nothing, tell=complain)
    published = _believed(config_maps, {_metadata(node).uid for node in nodes})
    for node in nodes:
        mirrors.nodes.put(node)
    for config_map in published.values():
        mirrors.topologies.put(config_map)
    for lease in leases:
        if lease.name in published:
            mirrors.leases.put(_without_namespace(lease))
    for pod in pods:
        mirrors.pods.put(pod)
    mirrors.refresh()
    world = World()
    mirrors.follow(world)
    return world


def _nothing() -> None:
    """Nobody waits for what is read once."""


async def _list(session: Session, resource: Resource) -> list[VersionedObject]:
    what, path = f"list {resource.name}", f"{resource.path}?{resource.query}"
    found: list[VersionedObject] = []
    async for page in pages(session, what, path, objects=_PAGE_OBJECTS):
        try:
            found += [read_versioned(item, all_namespaces=resource.all_namespaces) for item in page.items]
        except ValueError as error:
            raise Malformed(f"{what}: {error}") from None
    return found


async def _needed(session: Session, resource: Resource) -> list[VersionedObject]:
    """Raises GpuTopologyError with the permission that is missing, if one is."""
    try:
        return await _list(session, resource)
    except ApiError as error:
        fix = f". Have the permission to list {resource.name}" if error.status == _FORBIDDEN else ""
        raise GpuTopologyError(f"{error}{fix}") from None


async def _wanted(session: Session, resource: Resource) -> list[VersionedObject]:
    try:
        return await _list(session, resource)
    except ApiRefused as error:
        note = f"gpu-topology: left out: {error}. Without {resource.name} only HAMi's annotations tell of links"
        complain(printable(note))
        return []


def _believed(config_maps: list[VersionedObject], nodes: set[str]) -> Mapping[str, VersionedObject]:
    """What the agents published, by ``namespace/name``.

    Whoever may create ConfigMaps in some namespace could pose as an agent. So only what a Node owns is believed.
    """
    return {
        found.name: _without_namespace(found)
        for found in config_maps
        if nodes.intersection(owner.uid for owner in _metadata(found).owner_references or ())
    }


def _metadata(found: VersionedObject) -> _Metadata:
    try:
        return decode_answer(_OBJECT, found.document).metadata
    except msgspec.DecodeError:
        return _Metadata()


def _without_namespace(found: VersionedObject) -> VersionedObject:
    """As the mirrors know it, which hold the objects of one namespace."""
    return found._replace(name=found.name.partition("/")[2])
