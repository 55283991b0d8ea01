"""Single objects of the API server, as JSON objects: what was sent, never models of it."""

from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.kube.errors import ApiRefused, Conflict, Malformed, NotFound
from webhook.kube.session import APPLY, JSON, MERGE, Session, connect
from webhook.kube.status import failure
from webhook.model import names

SECONDS = 10.0
"""For one request."""
ANSWER_BYTES = 64 * 1024 * 1024
"""A list that is not read in pages may be long."""

Object = dict[str, Any]


class ApiServer:
    """A connection to the API server. Every method may raise :class:`webhook.kube.errors.ApiError`."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def node(self, name: str) -> Object:
        """The Node; ``NotFound`` if the cluster has none of that name."""
        return await self._ask(f"get node {name}", "GET", f"/api/v1/nodes/{_part(name)}")

    async def pod(self, namespace: str, name: str) -> Object:
        """The Pod; ``NotFound`` if there is none of that name."""
        return await self._ask(f"get pod {namespace}/{name}", "GET", _core(namespace, "pods", name))

    async def pods(self, namespace: str, *, label: str) -> list[Object]:
        """The Pods of a namespace with a label, given as ``key=value``."""
        what = f"list pods of {namespace} with {label}"
        return _items(await self._ask(what, "GET", f"{_core(namespace, 'pods')}?labelSelector={_part(label)}"))

    async def namespace(self, name: str) -> Object:
        """The Namespace; ``NotFound`` if the cluster has none of that name."""
        return await self._ask(f"get namespace {name}", "GET", f"/api/v1/namespaces/{_part(name)}")

    async def config_maps(self, *, label: str) -> list[Object]:
        """The ConfigMaps of all namespaces with a label, given as ``key=value``."""
        what = f"list ConfigMaps with {label}"
        return _items(await self._ask(what, "GET", f"/api/v1/configmaps?labelSelector={_part(label)}"))

    async def config_map(self, namespace: str, name: str) -> Object | None:
        """The ConfigMap, or None."""
        with suppress(NotFound):
            return await self._ask(f"get ConfigMap {namespace}/{name}", "GET", _core(namespace, "configmaps", name))
        return None

    async def lease(self, namespace: str, name: str) -> Object | None:
        """The Lease, or None."""
        with suppress(NotFound):
            return await self._ask(f"get Lease {namespace}/{name}", "GET", _lease(namespace, name))
        return None

    async def hami_schedulers(self) -> list[Object]:
        """The Deployments of HAMi's schedulers, in all namespaces."""
        label = _part("=".join(names.HAMI_SCHEDULER_LABEL))
        what = "list Deployments of HAMi's scheduler"
        return _items(await self._ask(what, "GET", f"/apis/apps/v1/deployments?labelSelector={label}"))

    async def mutating_webhooks(self, name: str) -> Object | None:
        """The MutatingWebhookConfiguration, or None."""
        path = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{_part(name)}"
        with suppress(NotFound):
            return await self._ask(f"get MutatingWebhookConfiguration {name}", "GET", path)
        return None

    async def version(self) -> str:
        """Of Kubernetes, such as ``v1.33.2``; empty if the API server does not say it."""
        found = (await self._ask("get the version", "GET", "/version")).get("gitVersion")
        return found if isinstance(found, str) else ""

    async def resource_claim(self, namespace: str, name: str) -> Object | None:
        """The ResourceClaim, or None."""
        with suppress(NotFound):
            return await self._ask(f"get ResourceClaim {namespace}/{name}", "GET", _claims(namespace, "", name))
        return None

    async def resource_claim_template(self, namespace: str, name: str) -> Object | None:
        """The ResourceClaimTemplate, or None."""
        what = f"get ResourceClaimTemplate {namespace}/{name}"
        with suppress(NotFound):
            return await self._ask(what, "GET", _claims(namespace, "template", name))
        return None

    async def resource_slices(self, *, driver: str, node: str) -> list[Object]:
        """The ResourceSlices that a DRA driver publishes on a node."""
        selector = _part(f"spec.driver={driver},spec.nodeName={node}")
        path = f"/apis/resource.k8s.io/v1/resourceslices?fieldSelector={selector}"
        return _items(await self._ask(f"list ResourceSlices of {driver} on node {node}", "GET", path))

    async def device_classes(self) -> list[Object]:
        """The DeviceClasses; none where the API server does not serve them, as before Kubernetes 1.34."""
        try:
            return _items(await self._ask("list DeviceClasses", "GET", "/apis/resource.k8s.io/v1/deviceclasses"))
        except ApiRefused as error:
            if error.status == 404:
                return []
            raise

    async def apply_config_map(self, manifest: Object, *, field_manager: str) -> Object:
        """Create it, or make the fields in ``manifest`` what they are there, whoever set them. Others stay."""
        metadata = manifest["metadata"]
        return await self._apply(manifest, _core(metadata["namespace"], "configmaps", metadata["name"]), field_manager)

    async def apply_lease(self, manifest: Object, *, field_manager: str) -> Object:
        """The same with a Lease."""
        metadata = manifest["metadata"]
        return await self._apply(manifest, _lease(metadata["namespace"], metadata["name"]), field_manager)

    async def merge_node(self, name: str, patch: Object, *, field_manager: str) -> Object:
        """Merge ``patch`` into the Node; ``Conflict`` if it names a resourceVersion that is no longer the newest."""
        path = f"/api/v1/nodes/{_part(name)}?fieldManager={_part(field_manager)}"
        return await self._ask(f"patch node {name}", "PATCH", path, patch, MERGE)

    async def create_event(self, manifest: Object) -> None:
        """Create the Event; one of that name that is there already is taken for the same."""
        namespace = manifest["metadata"]["namespace"]
        path = f"/apis/events.k8s.io/v1/namespaces/{_part(namespace)}/events"
        with suppress(Conflict):
            await self._ask(f"create Event in {namespace}", "POST", path, manifest)

    async def _apply(self, manifest: Object, path: str, field_manager: str) -> Object:
        metadata = manifest["metadata"]
        what = f"apply {manifest['kind']} {metadata['namespace']}/{metadata['name']}"
        return await self._ask(what, "PATCH", f"{path}?fieldManager={_part(field_manager)}&force=true", manifest, APPLY)

    async def _ask(
        self, what: str, method: str, path: str, body: Object | None = None, content_type: str = JSON
    ) -> Object:
        """Make a request and read the object in the answer.

        Raises:
            ApiError: it failed; the text begins with ``what``.
        """
        data = None if body is None else msgspec.json.encode(body)
        answer = await self._session.ask(what, method, path, data, limit=ANSWER_BYTES, content_type=content_type)
        if not 200 <= answer.status < 300:
            raise failure(what, answer)
        try:
            return msgspec.json.decode(answer.body, type=Object)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Malformed(f"{what}: expected an object from the API server, found something else") from None


def connect_objects(kubeconfig: Path | None, *, user_agent: str) -> ApiServer:
    """The API server that a kubeconfig names or, without one, that of the cluster in which this program runs as a pod.

    Nothing is sent yet.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    return ApiServer(connect(kubeconfig, user_agent=user_agent, seconds=SECONDS))


def _core(namespace: str, resource: str, name: str = "") -> str:
    path = f"/api/v1/namespaces/{_part(namespace)}/{resource}"
    return f"{path}/{_part(name)}" if name else path


def _claims(namespace: str, suffix: str, name: str) -> str:
    path = f"/apis/resource.k8s.io/v1/namespaces/{_part(namespace)}"
    return f"{path}/resourceclaim{suffix}s/{_part(name)}"


def _lease(namespace: str, name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{_part(namespace)}/leases/{_part(name)}"


def _part(text: str) -> str:
    """Text as a part of a path or query."""
    return quote(text, safe="")


def _items(answer: Object) -> list[Object]:
    """The objects of a list; none where something else stands there."""
    items = answer.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
