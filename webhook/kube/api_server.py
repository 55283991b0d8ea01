"""Single objects of the API server, as JSON objects: what was sent, never models of it."""

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec

from webhook.kube.contexts import Where
from webhook.kube.errors import ApiRefused, Conflict, Malformed, NotFound
from webhook.kube.session import APPLY, JSON, MERGE, Session, connect
from webhook.kube.status import failure
from webhook.model import names
from webhook.model.nesting import decode_answer

SECONDS = 10.0
"""For one request."""
ANSWER_BYTES = 64 * 1024 * 1024
"""A list that is not read in pages may be long."""
PAGE_OBJECTS, PAGE_BYTES = 500, 16 * 1024 * 1024
"""Of lists that are known to be short."""
TAINT_RULE_VERSIONS = ("v1", "v1beta2")
"""Versions of ``resource.k8s.io`` whose DeviceTaintRules are alike, the newest first."""
_RESOURCE = "/apis/resource.k8s.io"

Object = dict[str, Any]
_OBJECT = msgspec.json.Decoder(Object)


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

    async def workload(self, group: str, resource: str, namespace: str, name: str) -> Object:
        """What makes pods, such as ``deployments`` of ``apps/v1``; ``NotFound`` if there is none of that name."""
        path = f"/apis/{group}/namespaces/{_part(namespace)}/{resource}/{_part(name)}"
        return await self._ask(f"get {resource} {namespace}/{name}", "GET", path)

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
        what = f"get ResourceClaim {namespace}/{name}"
        with suppress(NotFound):
            return await self._ask(what, "GET", _claims(namespace, "resourceclaims", name))
        return None

    async def resource_claim_template(self, namespace: str, name: str) -> Object | None:
        """The ResourceClaimTemplate, or None."""
        what = f"get ResourceClaimTemplate {namespace}/{name}"
        with suppress(NotFound):
            return await self._ask(what, "GET", _claims(namespace, "resourceclaimtemplates", name))
        return None

    async def device_classes(self) -> list[Object]:
        """The DeviceClasses; none where the API server does not serve them, as before Kubernetes 1.34."""
        return _items(await self._if_served("list DeviceClasses", f"{_RESOURCE}/v1/deviceclasses"))

    async def taint_rules_version(self) -> str:
        """The version of ``resource.k8s.io`` in which DeviceTaintRules are served; empty if they are not.

        Kubernetes 1.37 serves them in ``v1``. In 1.36 they are ``v1beta2``, and off without ``--runtime-config``.
        """
        group = await self._if_served("get the versions of resource.k8s.io", _RESOURCE)
        served = {version.get("version") for version in _objects(group, "versions")}
        for version in TAINT_RULE_VERSIONS:
            if version in served:
                found = await self._if_served(f"get the resources of {version}", f"{_RESOURCE}/{version}")
                if any(one.get("name") == "devicetaintrules" for one in _objects(found, "resources")):
                    return version
        return ""

    async def taint_rules(self, version: str, *, label: str) -> list[Object]:
        """The DeviceTaintRules with a label, given as ``key=value``. At most 500 are read."""
        path = f"{_taint_rules(version)}?labelSelector={_part(label)}"
        return await self._page(f"list DeviceTaintRules with {label}", path)

    async def create_taint_rule(self, version: str, manifest: Object) -> None:
        """Create the DeviceTaintRule; ``Conflict`` if there is one of that name."""
        what = f"create DeviceTaintRule {manifest['metadata']['name']}"
        whole = {"apiVersion": f"resource.k8s.io/{version}"} | manifest
        await self._ask(what, "POST", _taint_rules(version), whole)

    async def merge_taint_rule(self, version: str, name: str, patch: Object, *, field_manager: str) -> None:
        """Merge ``patch`` into it; ``Conflict`` if it names a resourceVersion that is no longer the newest."""
        path = f"{_taint_rules(version, name)}?fieldManager={_part(field_manager)}"
        await self._ask(f"patch DeviceTaintRule {name}", "PATCH", path, patch, MERGE)

    async def delete_taint_rule(self, version: str, name: str, *, uid: str, resource_version: str) -> None:
        """Delete it if it is still that one, unchanged; else ``Conflict``. One that is gone is no error."""
        body = {"preconditions": {"uid": uid, "resourceVersion": resource_version}}
        with suppress(NotFound):
            await self._ask(f"delete DeviceTaintRule {name}", "DELETE", _taint_rules(version, name), body)

    async def resource_slices(self, *, node: str) -> list[Object]:
        """The ResourceSlices of a node. At most 500 are read."""
        path = f"{_RESOURCE}/v1/resourceslices?fieldSelector={_part(f'spec.nodeName={node}')}"
        return await self._page(f"list ResourceSlices of node {node}", path)

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

    async def merge_pod(self, namespace: str, name: str, patch: Object, *, field_manager: str) -> Object:
        """Merge ``patch`` into the Pod; ``Conflict`` if it names a uid that is another pod's."""
        path = f"{_core(namespace, 'pods', name)}?fieldManager={_part(field_manager)}"
        return await self._ask(f"patch pod {namespace}/{name}", "PATCH", path, patch, MERGE)

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

    async def _if_served(self, what: str, path: str) -> Object:
        """What stands at a path; an empty object where the API server does not serve it."""
        try:
            return await self._ask(what, "GET", path)
        except ApiRefused as error:
            if error.status == 404:
                return {}
            raise

    async def _page(self, what: str, path: str) -> list[Object]:
        """A list that is known to be short.

        Raises:
            Malformed: it is longer than one page.
        """
        found = await self._ask(what, "GET", f"{path}&limit={PAGE_OBJECTS}", bound=PAGE_BYTES)
        if _object(found.get("metadata")).get("continue"):
            raise Malformed(f"{what}: expected at most {PAGE_OBJECTS} objects, found more")
        return _items(found)

    async def _ask(
        self,
        what: str,
        method: str,
        path: str,
        body: Object | None = None,
        content_type: str = JSON,
        bound: int = ANSWER_BYTES,
    ) -> Object:
        """Make a request and read the object in the answer.

        Raises:
            ApiError: it failed; the text begins with ``what``.
        """
        data = None if body is None else msgspec.json.encode(body)
        answer = await self._session.ask(what, method, path, data, limit=bound, content_type=content_type)
        if not 200 <= answer.status < 300:
            raise failure(what, answer)
        try:
            return decode_answer(_OBJECT, answer.body)
        except msgspec.DecodeError:
            raise Malformed(f"{what}: expected an object from the API server, found something else") from None


def connect_objects(where: Where, *, user_agent: str) -> ApiServer:
    """The API server that a kubeconfig names or, without one, that of the cluster in which this program runs as a pod.

    Nothing is sent yet.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    return ApiServer(connect(where, user_agent=user_agent, seconds=SECONDS))


def _core(namespace: str, resource: str, name: str = "") -> str:
    path = f"/api/v1/namespaces/{_part(namespace)}/{resource}"
    return f"{path}/{_part(name)}" if name else path


def _claims(namespace: str, resource: str, name: str) -> str:
    return f"{_RESOURCE}/v1/namespaces/{_part(namespace)}/{resource}/{_part(name)}"


def _lease(namespace: str, name: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{_part(namespace)}/leases/{_part(name)}"


def _part(text: str) -> str:
    """Text as a part of a path or query."""
    return quote(text, safe="")


def _items(answer: Object) -> list[Object]:
    """The objects of a list; none where something else stands there."""
    return _objects(answer, "items")


def _objects(answer: Object, member: str) -> list[Object]:
    items = answer.get(member)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}


def _taint_rules(version: str, name: str = "") -> str:
    path = f"{_RESOURCE}/{version}/devicetaintrules"
    return f"{path}/{_part(name)}" if name else path
