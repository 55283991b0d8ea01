"""Questions of the command line to the API server, by the names that it uses; the verbs are those of :class:`Api`."""

from contextlib import suppress

from webhook.cluster import kinds
from webhook.cluster.api.contexts import Where
from webhook.cluster.api.errors import Conflict, NotServed
from webhook.cluster.api.session import connect
from webhook.cluster.api.verbs import Api, Object, PatchForm, Reply
from webhook.cluster.kinds import Kind

__all__ = ["SECONDS", "ApiServer", "Object", "connect_objects"]

SECONDS = 10.0
"""For one request."""


class ApiServer(Api):
    """Single objects, and short lists of them."""

    async def node(self, name: str) -> Object:
        """The Node."""
        return (await self.get(kinds.NODE, name)).object()

    async def pod(self, namespace: str, name: str) -> Object:
        """The Pod."""
        return (await self.get(kinds.POD, name, namespace)).object()

    async def pods(self, namespace: str, *, label: str) -> list[Object]:
        """The Pods of a namespace with a label, given as ``key=value``."""
        what = f"list pods of {namespace} with {label}"
        return await self.objects(kinds.POD.having(namespace=namespace, labels=label), what=what)

    async def workload(self, group: str, resource: str, namespace: str, name: str) -> Object:
        """The object that makes pods, such as ``deployments`` of ``apps/v1``."""
        kind = Kind(resource, resource, group, has_namespaces=True)
        return (await self.get(kind, name, namespace)).object()

    async def namespace(self, name: str) -> Object:
        """The Namespace."""
        return (await self.get(kinds.NAMESPACE, name)).object()

    async def config_maps(self, *, label: str) -> list[Object]:
        """The ConfigMaps of all namespaces with a label, given as ``key=value``."""
        return await self.objects(kinds.CONFIG_MAP.having(labels=label), what=f"list ConfigMaps with {label}")

    async def lease(self, namespace: str, name: str) -> Object | None:
        """The Lease, or None."""
        return _object(await self.find(kinds.LEASE, name, namespace))

    async def hami_schedulers(self) -> list[Object]:
        """The Deployments of HAMi's schedulers, in all namespaces."""
        return await self.objects(kinds.HAMI_SCHEDULERS, what="list Deployments of HAMi's scheduler")

    async def mutating_webhooks(self, name: str) -> Object | None:
        """The MutatingWebhookConfiguration, or None."""
        return _object(await self.find(kinds.MUTATING_WEBHOOKS, name))

    async def version(self) -> str:
        """The version of Kubernetes, such as ``v1.33.2``; empty if the API server does not say it."""
        found = (await self.kubernetes()).object().get("gitVersion")
        return found if isinstance(found, str) else ""

    async def resource_claim(self, namespace: str, name: str) -> Object | None:
        """The ResourceClaim, or None."""
        return _object(await self.find(kinds.CLAIM, name, namespace))

    async def resource_claim_template(self, namespace: str, name: str) -> Object | None:
        """The ResourceClaimTemplate, or None."""
        return _object(await self.find(kinds.CLAIM_TEMPLATE, name, namespace))

    async def device_classes(self) -> list[Object]:
        """The DeviceClasses; none where the API server does not serve them, as before Kubernetes 1.34."""
        try:
            return await self.objects(kinds.DEVICE_CLASSES, what="list DeviceClasses")
        except NotServed:
            return []

    async def resource_slices(self, *, node: str) -> list[Object]:
        """The ResourceSlices of a node, 500 at most."""
        what = f"list ResourceSlices of node {node}"
        return await self.objects(kinds.SLICE.having(fields=f"spec.nodeName={node}"), most=500, what=what)

    async def merge_pod(self, namespace: str, name: str, patch: Object, *, field_manager: str) -> Object:
        """Merge ``patch`` into the Pod; ``Conflict`` if it names a uid that is another pod's."""
        api = Api(self.session, field_manager=field_manager)
        return (await api.patch(kinds.POD, name, namespace, patch, PatchForm.MERGE)).object()

    async def create_event(self, manifest: Object) -> None:
        """Create the Event; one of that name that is there already is taken for the same."""
        with suppress(Conflict):
            await self.create(kinds.EVENT, manifest)


def connect_objects(where: Where, *, user_agent: str) -> ApiServer:
    """The API server that a kubeconfig names or, without one, that of the cluster in which this program runs as a pod.

    Nothing is sent yet.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    return ApiServer(connect(where, user_agent=user_agent, seconds=SECONDS))


def _object(reply: Reply | None) -> Object | None:
    return None if reply is None else reply.object()
