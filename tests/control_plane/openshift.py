"""What OpenShift does to pods under its SCC ``restricted-v2``, as policies for an API server without OpenShift.

Written from the SCC and from "Managing security context constraints" of its documentation:
github.com/openshift/cluster-kube-apiserver-operator, bindata/bootkube/scc-manifests, restricted-v2. OpenShift writes
what a pod leaves out before the webhooks and again after them, and judges what comes out. So does this: a
MutatingAdmissionPolicy writes, a ValidatingAdmissionPolicy judges. Labels of SELinux are left out.
"""

from typing import Any

USERS = "openshift.io/sa.scc.uid-range"
FIRST, COUNT = 1000680000, 10000
ANNOTATIONS = {USERS: f"{FIRST}/{COUNT}", "openshift.io/sa.scc.supplemental-groups": f"{FIRST}/{COUNT}"}
"""Of a namespace, as OpenShift writes them when it is created."""
NAME = "restricted-v2"
_VERSION = "admissionregistration.k8s.io/v1"
_VOLUMES = [
    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected"),
    "secret",
]
_CONTAINERS = "variables.containers.all(one, {condition})"
_INITS = "(has(object.spec.initContainers) ? object.spec.initContainers : [])"
_OF_POD = "has(object.spec.securityContext) && has(object.spec.securityContext"


def policies(namespace: str) -> list[dict[str, Any]]:
    """The policies and their bindings, for the pods of one namespace."""
    meant = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    constraints = {"matchPolicy": "Equivalent", "resourceRules": [rule], **meant}
    name = f"{NAME}-{namespace}"
    common = {"failurePolicy": "Fail", "matchConstraints": constraints}
    writes = {"reinvocationPolicy": "IfNeeded", "mutations": list(_mutations()), **common}
    return [
        _object("MutatingAdmissionPolicy", name, writes),
        _object("MutatingAdmissionPolicyBinding", name, {"policyName": name}),
        _object("ValidatingAdmissionPolicy", name, common | {"variables": _variables(), "validations": _validations()}),
        _object("ValidatingAdmissionPolicyBinding", name, {"policyName": name, "validationActions": ["Deny"]}),
    ]


def _object(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": _VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _mutations() -> list[dict[str, Any]]:
    """What a pod leaves out: the first user of the range for each container, its group for files, a seccomp profile."""
    fields = []
    for field, source in (("containers", "object.spec.containers"), ("initContainers", _INITS)):
        kind = f"Object.spec.{field}"
        context = f"{kind}.securityContext{{runAsUser: {FIRST}}}"
        without = f"{source}.filter(one, !has(one.securityContext) || !has(one.securityContext.runAsUser))"
        fields.append(f"{field}: {without}.map(one, {kind}{{name: one.name, securityContext: {context}}})")
    users = f"{_OF_POD}.runAsUser) ? Object{{}} : Object{{spec: Object.spec{{{', '.join(fields)}}}}}"
    group = f"{_OF_POD}.fsGroup) ? object.spec.securityContext.fsGroup : {FIRST}"
    profile = f"{_OF_POD}.seccompProfile) ? object.spec.securityContext.seccompProfile.type : 'RuntimeDefault'"
    kind = "Object.spec.securityContext"
    pod = f"fsGroup: {group}, seccompProfile: {kind}.seccompProfile{{type: {profile}}}"
    return [_applied(users), _applied(f"Object{{spec: Object.spec{{securityContext: {kind}{{{pod}}}}}}}")]


def _applied(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def _variables() -> list[dict[str, str]]:
    return [
        {"name": "containers", "expression": f"object.spec.containers + {_INITS}"},
        {"name": "volumes", "expression": "has(object.spec.volumes) ? object.spec.volumes : []"},
        {
            "name": "range",
            "expression": f"namespaceObject.metadata.annotations['{USERS}'].split('/').map(part, int(part))",
        },
    ]


def _validations() -> list[dict[str, str]]:
    user = _effective("runAsUser", "", "-1")
    seccomp = _effective("seccompProfile", ".type", "''")
    in_range = "{user} >= variables.range[0] && {user} < variables.range[0] + variables.range[1]"
    host = ("hostNetwork", "hostPID", "hostIPC")
    rules = {
        "host namespaces are not allowed": " && ".join(
            f"!(has(object.spec.{one}) && object.spec.{one})" for one in host
        ),
        "host ports are not allowed": _each(
            "!has(one.ports) || one.ports.all(port, !has(port.hostPort) || port.hostPort == 0)"
        ),
        "a kind of volume is not allowed": "variables.volumes.all(volume, "
        + " || ".join(f"has(volume.{kind})" for kind in _VOLUMES)
        + ")",
        "privileged containers are not allowed": _each(
            "!has(one.securityContext.privileged) || !one.securityContext.privileged"
        ),
        "privilege escalation must be off": _each(
            "has(one.securityContext.allowPrivilegeEscalation) && !one.securityContext.allowPrivilegeEscalation"
        ),
        "ALL capabilities must be dropped": _each(
            "has(one.securityContext.capabilities) && has(one.securityContext.capabilities.drop)"
            " && one.securityContext.capabilities.drop.exists(name, name == 'ALL')"
        ),
        "only NET_BIND_SERVICE may be added": _each(
            "!has(one.securityContext.capabilities) || !has(one.securityContext.capabilities.add)"
            " || one.securityContext.capabilities.add.all(name, name == 'NET_BIND_SERVICE')"
        ),
        "runAsUser must be in the range of the namespace": _each(in_range.format(user=f"({user})")),
        "fsGroup must be in the range of the namespace": (
            f"!({_OF_POD}.fsGroup)) || (" + in_range.format(user="object.spec.securityContext.fsGroup") + ")"
        ),
        "the seccomp profile must be RuntimeDefault": _each(f"({seccomp}) == 'RuntimeDefault'"),
    }
    return [{"expression": expression, "message": f"{NAME}: {rule}"} for rule, expression in rules.items()]


def _effective(field: str, member: str, otherwise: str) -> str:
    """Of a container, else of its pod."""
    own, of_pod = f"one.securityContext.{field}", f"object.spec.securityContext.{field}"
    return f"has({own}) ? {own}{member} : ({_OF_POD}.{field}) ? {of_pod}{member} : {otherwise})"


def _each(condition: str) -> str:
    """Of every container; one without a security context has had a user written into it by now."""
    return _CONTAINERS.format(condition=f"has(one.securityContext) && ({condition})")
