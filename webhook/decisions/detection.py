"""Versions of HAMi and Kubernetes, and the resources that claims serve, from answers of the API server.

A fact that is not certain counts as not known.
"""

import re
from typing import TypeVar

import msgspec

from webhook.decisions.configuration import HAMI_RESOURCES
from webhook.words import names
from webhook.words.errors import FormatError
from webhook.words.nesting import decode_answer
from webhook.words.version import Version

OVERRULE = "Set cluster.hamiVersion in the configuration"
_VERSION = re.compile(r"v?\d{1,4}\.\d{1,4}(\.\d{1,4})?([-+._].*)?")
"""A version, perhaps with an addition of a registry or a build: ``v2.10.0-rc1``, ``2.9.0-amd64``."""
_TAG = re.compile(r"(?:[^/]*/)*[^/:@]+(?::(?P<tag>[^@]*))?(?:@(?P<digest>.*))?")
"""The name of an image (distribution/reference). The last part has the tag; an earlier colon may precede a port."""


T = TypeVar("T")


class _Container(msgspec.Struct):
    name: str = ""
    image: str = ""


class _PodSpec(msgspec.Struct, rename="camel"):
    service_account_name: str = "default"
    containers: list[_Container] | None = None


class _Template(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


class _Spec(msgspec.Struct):
    template: _Template = msgspec.field(default_factory=_Template)


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    labels: dict[str, str] | None = None


class _Deployment(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _Deployments(msgspec.Struct):
    items: list[_Deployment] | None = None


class _DeviceClassSpec(msgspec.Struct, rename="camel"):
    extended_resource_name: str | None = None


class _DeviceClass(msgspec.Struct):
    metadata: _Metadata
    spec: _DeviceClassSpec = msgspec.field(default_factory=_DeviceClassSpec)


class _DeviceClasses(msgspec.Struct):
    items: list[_DeviceClass] | None = None


class _KubernetesVersion(msgspec.Struct, rename="camel"):
    git_version: str


_DEPLOYMENTS = msgspec.json.Decoder(_Deployments)
_DEVICE_CLASSES = msgspec.json.Decoder(_DeviceClasses)
_KUBERNETES_VERSION = msgspec.json.Decoder(_KubernetesVersion)


def kubernetes_version(answer: bytes) -> Version:
    """Returns the version in the answer of ``/version``.

    Raises:
        FormatError: the answer has no version.
    """
    source = "version of Kubernetes"
    return Version.parse(_decode(answer, _KUBERNETES_VERSION, source, "gitVersion").git_version, source=source)


def hami_version(answer: bytes) -> Version:
    """Returns the version of HAMi that the Deployments of its scheduler run.

    The tag of the image counts. If the image is named by its digest alone, the label of the chart counts. With a tag
    such as ``latest`` the version is not known.

    Args:
        answer: A ``DeploymentList``.

    Raises:
        FormatError: there is no such Deployment, there are several that do not agree, or one tells no version.
    """
    source = "version of HAMi"
    found = _deployments(answer, source)
    versions = {_version(deployment) for deployment in found}
    if len(versions) == 1:
        return versions.pop()
    label = "=".join(names.HAMI_SCHEDULER_LABEL)
    several = " and ".join(sorted(map(str, versions)))
    raise FormatError(source, expected=f"one Deployment with the label {label}", found=several or "none", fix=OVERRULE)


def has_no_scheduler(answer: bytes) -> bool:
    """Returns whether there is certainly no scheduler of HAMi.

    Args:
        answer: A ``DeploymentList`` of HAMi's schedulers, or something else, which says nothing.
    """
    try:
        return _decode(answer, _DEPLOYMENTS, "schedulers of HAMi", "Deployments").items == []
    except FormatError:
        return False


def scheduler_accounts(answer: bytes) -> frozenset[str]:
    """Returns the user names with which HAMi's schedulers create Bindings.

    Args:
        answer: A ``DeploymentList`` of HAMi's schedulers.

    Raises:
        FormatError: ``answer`` is no ``DeploymentList``.
    """
    return frozenset(
        f"system:serviceaccount:{deployment.metadata.namespace}:{deployment.spec.template.spec.service_account_name}"
        for deployment in _deployments(answer, "schedulers of HAMi")
    )


def claimed_resources(answer: bytes) -> tuple[frozenset[str], bool]:
    """Returns the extended resources that DeviceClasses serve, and whether a class is that of HAMi's DRA driver.

    HAMi-DRA's webhook turns requests for GPUs into claims of that class, whether or not the class names the resource.

    Args:
        answer: A ``DeviceClassList``.

    Raises:
        FormatError: ``answer`` is no ``DeviceClassList``.
    """
    classes = _decode(answer, _DEVICE_CLASSES, "DeviceClasses", "DeviceClasses").items or []
    has_hami = any(served.metadata.name == names.HAMI_DEVICE_CLASS for served in classes)
    named = {served.spec.extended_resource_name for served in classes if served.spec.extended_resource_name}
    return frozenset(named | {HAMI_RESOURCES.count} if has_hami else named), has_hami


def _deployments(answer: bytes, source: str) -> list[_Deployment]:
    return _decode(answer, _DEPLOYMENTS, source, "Deployments").items or []


def _decode(answer: bytes, decoder: msgspec.json.Decoder[T], source: str, expected: str) -> T:
    try:
        return decode_answer(decoder, answer)
    except msgspec.DecodeError as error:
        raise FormatError(source, expected=expected, found=str(error)) from None


def _version(deployment: _Deployment) -> Version:
    metadata = deployment.metadata
    source = f"version of HAMi: Deployment {metadata.namespace}/{metadata.name}"
    for container in deployment.spec.template.spec.containers or ():
        if container.name == names.HAMI_SCHEDULER_CONTAINER:
            tag = tag_of(container.image)
            where, text = f"image {container.image}", tag
            if not tag:
                where, text = f"label {names.VERSION_LABEL}", (metadata.labels or {}).get(names.VERSION_LABEL, "")
            if not _VERSION.fullmatch(text):
                expected = 'a version such as "2.10.0"'
                raise FormatError(f"{source}: {where}", expected=expected, found=text or "none", fix=OVERRULE)
            return Version.parse(text, source=source)
    expected = f"a container {names.HAMI_SCHEDULER_CONTAINER}"
    raise FormatError(source, expected=expected, found="none of that name", fix=OVERRULE)


def tag_of(image: str) -> str:
    """Returns the tag in the name of an image; empty if the name has a digest and no tag."""
    match = _TAG.fullmatch(image)
    if not match or (match["digest"] and not match["tag"]):
        return ""
    return match["tag"] or "latest"
