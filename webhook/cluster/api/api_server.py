"""Requests of the command line to the API server, by their subject; the verbs are those of :class:`Api`."""

from contextlib import suppress

from webhook.cluster import kinds
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.errors import Conflict, NotServed
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api, Object, PatchForm, Reply
from webhook.cluster.kinds import Kind

__all__ = ["SECONDS", "ApiServer", "Object", "connect_objects"]

SECONDS = 10.0
"""The time limit of one request."""


class ApiServer(Api):
    """Reads of single objects and short lists, and a few writes."""

    async def node(self, name: str) -> Object:
        """Get the Node."""
        return (await self.get(kinds.NODE, name)).object()

    async def pod(self, namespace: str, name: str) -> Object:
        """Get the Pod."""
        return (await self.get(kinds.POD, name, namespace)).object()

    async def pods(self, namespace: str, *, label: str) -> list[Object]:
        """List the Pods of a namespace with a label, given as ``key=value``."""
        what = f"list pods of {namespace} with {label}"
        return await self.objects(kinds.POD.having(namespace=namespace, labels=label), what=what)

    async def workload(self, group: str, resource: str, namespace: str, name: str) -> Object:
        """Get an object that makes pods, such as one of ``deployments`` of ``apps/v1``."""
        kind = Kind(resource, resource, group, has_namespaces=True)
        return (await self.get(kind, name, namespace)).object()

    async def namespace(self, name: str) -> Object:
        """Get the Namespace."""
        return (await self.get(kinds.NAMESPACE, name)).object()

    async def config_maps(self, *, label: str) -> list[Object]:
        """List the ConfigMaps of all namespaces with a label, given as ``key=value``."""
        return await self.objects(kinds.CONFIG_MAP.having(labels=label), what=f"list ConfigMaps with {label}")

    async def lease(self, namespace: str, name: str) -> Object | None:
        """Get the Lease, or None."""
        return _object(await self.find(kinds.LEASE, name, namespace))

    async def hami_schedulers(self) -> list[Object]:
        """List the Deployments of HAMi's schedulers, in all namespaces."""
        return await self.objects(kinds.HAMI_SCHEDULERS, what="list Deployments of HAMi's scheduler")

    async def mutating_webhooks(self, name: str) -> Object | None:
        """Get the MutatingWebhookConfiguration, or None."""
        return _object(await self.find(kinds.MUTATING_WEBHOOKS, name))

    async def runtime_class(self, name: str) -> Object | None:
        """Get the RuntimeClass, or None."""
        return _object(await self.find(kinds.RUNTIME_CLASS, name))

    async def version(self) -> str:
        """Get the version of Kubernetes, such as ``v1.33.2``; empty if the API server does not say it."""
        found = (await self.kubernetes()).object().get("gitVersion")
        return found if isinstance(found, str) else ""

    async def resource_claim(self, namespace: str, name: str) -> Object | None:
        """Get the ResourceClaim, or None."""
        return _object(await self.find(kinds.CLAIM, name, namespace))

    async def resource_claim_template(self, namespace: str, name: str) -> Object | None:
        """Get the ResourceClaimTemplate, or None."""
        return _object(await self.find(kinds.CLAIM_TEMPLATE, name, namespace))

    async def device_classes(self) -> list[Object]:
        """List the DeviceClasses; empty if the API server does not serve them, as before Kubernetes 1.34."""
        try:
            return await self.objects(kinds.DEVICE_CLASSES, what="list DeviceClasses")
        except NotServed:
            return []

    async def resource_slices(self, *, node: str) -> list[Object]:
        """List the ResourceSlices of a node, 500 at most."""
        what = f"list ResourceSlices of node {node}"
        return await self.objects(kinds.SLICE.having(fields=f"spec.nodeName={node}"), most=500, what=what)

    async def merge_pod(self, namespace: str, name: str, patch: Object, *, field_manager: str) -> Object:
        """Merge ``patch`` into the Pod. Raises ``Conflict`` if the patch names the uid of another pod."""
        api = Api(self.session, field_manager=field_manager)
        return (await api.patch(kinds.POD, name, namespace, patch, PatchForm.MERGE)).object()

    async def create_event(self, manifest: Object) -> None:
        """Create the Event. An existing one of the same name counts as created."""
        with suppress(Conflict):
            await self.create(kinds.EVENT, manifest)


def connect_objects(where: Where, *, user_agent: str) -> ApiServer:
    """Connect to the API server of a kubeconfig or, without one, of the cluster in which this program runs as a pod.

    This sends no request.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    return ApiServer(connect(where, user_agent=user_agent, seconds=SECONDS))


def _object(reply: Reply | None) -> Object | None:
    return None if reply is None else reply.object()
