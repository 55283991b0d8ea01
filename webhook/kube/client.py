"""Requests to the API server. Objects are what it sent and what it gets, never the client's models of them."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kubernetes.client import (
    ApiClient,
    ApiException,
    Configuration,
    CoordinationV1Api,
    CoreV1Api,
    EventsV1Api,
    VersionApi,
)
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from webhook.kube.configuration import load_configuration
from webhook.kube.errors import ApiError, ApiRefused, ApiServerAway, Conflict, NotFound

CONNECT_SECONDS, ANSWER_SECONDS = 5.0, 10.0
_TIMEOUTS = (CONNECT_SECONDS, ANSWER_SECONDS)
_APPLY, _MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
_TOO_SOON = frozenset({401, 408, 429})
"""Besides 5xx: what a later request, perhaps with a newer token, may get past."""

Object = dict[str, Any]


# Without the client's check of the body, if it has one: it makes a time of ``eventTime``, and a text again that the API
# server refuses where the microseconds are zero (apimachinery pkg/apis/meta/v1/micro_time.go).
_create_event = getattr(EventsV1Api.create_namespaced_event, "raw_function", EventsV1Api.create_namespaced_event)


class ApiServer:
    """A connection to the API server. Every method may raise :class:`ApiError`."""

    def __init__(self, configuration: Configuration, *, user_agent: str) -> None:
        configuration.retries = False  # when to try again is the caller's business
        self._client = ApiClient(configuration)
        self._client.user_agent = user_agent
        self._core = CoreV1Api(self._client)
        self._events = EventsV1Api(self._client)
        self._coordination = CoordinationV1Api(self._client)

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()  # type: ignore[no-untyped-call]  # kubernetes has no annotations there

    def node(self, name: str) -> Object:
        """The Node; ``NotFound`` if the cluster has none of that name."""
        return _ask(f"get node {name}", self._core.read_node, name)

    def pod(self, namespace: str, name: str) -> Object:
        """The Pod; ``NotFound`` if there is none of that name."""
        return _ask(f"get pod {namespace}/{name}", self._core.read_namespaced_pod, name, namespace)

    def pods(self, namespace: str, *, label: str) -> list[Object]:
        """The Pods of a namespace with a label, given as ``key=value``."""
        what = f"list pods of {namespace} with {label}"
        return _items(_ask(what, self._core.list_namespaced_pod, namespace, label_selector=label))

    def namespace(self, name: str) -> Object:
        """The Namespace; ``NotFound`` if the cluster has none of that name."""
        return _ask(f"get namespace {name}", self._core.read_namespace, name)

    def config_maps(self, *, label: str) -> list[Object]:
        """The ConfigMaps of all namespaces with a label, given as ``key=value``."""
        what = f"list ConfigMaps with {label}"
        return _items(_ask(what, self._core.list_config_map_for_all_namespaces, label_selector=label))

    def lease(self, namespace: str, name: str) -> Object | None:
        """The Lease, or None."""
        try:
            return _ask(f"get Lease {namespace}/{name}", self._coordination.read_namespaced_lease, name, namespace)
        except NotFound:
            return None

    def version(self) -> str:
        """Of Kubernetes, such as ``v1.33.2``; empty if the API server does not say it."""
        found = _ask("get the version", VersionApi(self._client).get_code).get("gitVersion")
        return found if isinstance(found, str) else ""

    def config_map(self, namespace: str, name: str) -> Object | None:
        """The ConfigMap, or None."""
        try:
            return _ask(f"get ConfigMap {namespace}/{name}", self._core.read_namespaced_config_map, name, namespace)
        except NotFound:
            return None

    def apply_config_map(self, manifest: Object, *, field_manager: str) -> Object:
        """Create it, or make the fields in ``manifest`` what they are there, whoever set them. Others stay."""
        return _apply(self._core.patch_namespaced_config_map, manifest, field_manager)

    def apply_lease(self, manifest: Object, *, field_manager: str) -> Object:
        """The same with a Lease."""
        return _apply(self._coordination.patch_namespaced_lease, manifest, field_manager)

    def merge_node(self, name: str, patch: Object, *, field_manager: str) -> Object:
        """Merge ``patch`` into the Node; ``Conflict`` if it names a resourceVersion that is no longer the newest."""
        return _ask(
            f"patch node {name}", self._core.patch_node, name, patch, field_manager=field_manager, _content_type=_MERGE
        )

    def create_event(self, manifest: Object) -> None:
        """Create the Event; one of that name that is there already is taken for the same."""
        namespace = manifest["metadata"]["namespace"]
        try:
            _ask(f"create Event in {namespace}", _create_event, self._events, namespace, manifest)
        except Conflict:
            return


def connect(kubeconfig: Path | None, *, user_agent: str) -> ApiServer:
    """The API server that a kubeconfig names or, without one, that of the cluster in which this program runs as a pod.

    Nothing is sent yet.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    return ApiServer(load_configuration(kubeconfig), user_agent=user_agent)


def _apply(call: Callable[..., Any], manifest: Object, field_manager: str) -> Object:
    """Server-side apply with the method that patches objects of this kind.

    Raises:
        ApiError: it failed.
    """
    name, namespace = manifest["metadata"]["name"], manifest["metadata"]["namespace"]
    what = f"apply {manifest['kind']} {namespace}/{name}"
    return _ask(what, call, name, namespace, manifest, field_manager=field_manager, force=True, _content_type=_APPLY)


def _ask(what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Object:
    """Make a request and read the object in the answer.

    Raises:
        ApiError: it failed; the text begins with ``what``.
    """
    try:
        answer = call(*arguments, **options, _preload_content=False, _request_timeout=_TIMEOUTS)
        found = json.loads(answer.data)
    except ApiException as error:
        raise failure(what, error) from None
    except (HTTPError, OSError, ConfigException) as error:
        raise ApiServerAway(f"{what}: the API server cannot be reached: {error}") from None
    except ValueError:
        raise ApiServerAway(f"{what}: expected an object from the API server, found something else") from None
    if not isinstance(found, dict):
        raise ApiServerAway(f"{what}: expected an object from the API server, found {type(found).__name__}")
    return found


def _items(answer: Object) -> list[Object]:
    """The objects of a list; none where something else stands there."""
    items = answer.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def failure(what: str, error: ApiException) -> ApiError:
    """What an answer that is no success means for ``what`` was asked."""
    code = error.status or 0
    text = f"{what}: {_message(error)} ({code})" if code else f"{what}: {' '.join(str(error.reason).split())}"
    if code in _TOO_SOON or code >= 500 or not code:
        return ApiServerAway(text, retry_after=_retry_after(error.headers or {}))
    if code == 404:
        return NotFound(text)
    return Conflict(text) if code == 409 else ApiRefused(text)


def _message(error: ApiException) -> str:
    """What the Status in the body says; else the words of HTTP."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(error.body or "")["message"] or error.reason)
    return str(error.reason)


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds; the API server sends no dates (apiserver pkg/server/filters/maxinflight.go)."""
    text = headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 0.0
