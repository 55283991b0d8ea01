"""The cluster of a command: the options ``--kubeconfig`` and ``--context``, and kubectl's defaults."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.words.names import DEFAULT_NAMESPACE

if TYPE_CHECKING:
    from webhook.cluster.api.contexts import Context

KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", metavar="FILE", help="Of the cluster; without, as kubectl finds it.")
]
"""The option of commands that always use a cluster, and of those that use one if it is given."""
ContextOption = Annotated[
    str, typer.Option("--context", metavar="NAME", help="Of the kubeconfig; without, the current one.")
]


def named_cluster(kubeconfig: Path | None, context: str = "") -> "Context | None":
    """Return the cluster that the options name; None if neither is given.

    Raises:
        ConfigError: only a context is given, and there is no kubeconfig.
    """
    return wanted_cluster(kubeconfig, context) if kubeconfig is not None or context else None


def wanted_cluster(kubeconfig: Path | None, context: str = "") -> "Context | None":
    """Return the cluster that the options name, else kubectl's; None stands for the one in which this runs as a pod.

    Raises:
        ConfigError: there is no kubeconfig.
    """
    from webhook.cluster.api.contexts import Context

    return Context((kubeconfig,), context) if kubeconfig is not None else usual_kubeconfig(context)


def refuse_cluster(kubeconfig: Path | None, context: str, why: str) -> None:
    """Raises BadParameter if one of the options is given."""
    for option, value in (("--kubeconfig", kubeconfig), ("--context", context)):
        if value:
            raise typer.BadParameter(why, param_hint=option)


def usual_kubeconfig(context: str = "") -> "Context | None":
    """Find the cluster as kubectl does: ``KUBECONFIG``, the pod's own account (``None``), ``~/.kube/config``.

    Args:
        context: The context in the files; empty for the current one. A pod's own account has none.

    Raises:
        ConfigError: none of them exists.
    """
    from webhook.cluster.api.contexts import Context
    from webhook.cluster.api.kubeconfig_files import exists

    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if any(map(exists, named)):
        return Context(tuple(dict.fromkeys(filter(exists, named))), context)
    if not named and not context and "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    usual = Path(os.environ.get("HOME", "/")) / ".kube" / "config"
    if not named and exists(usual):
        return Context((usual,), context)
    from webhook.words.errors import ConfigError, shorten

    if named:
        said = f"$KUBECONFIG names {shorten(os.environ['KUBECONFIG'])}, of which nothing exists"
    else:
        said = f"$KUBECONFIG is not set, and ~/.kube/config ({usual}) does not exist"
    raise ConfigError(f"no kubeconfig: {said}. Give --kubeconfig FILE")


def namespace_of_context(cluster: "Context | Path | None") -> str:
    """Return the namespace that kubectl would use; in a pod its own.

    Args:
        cluster: The context, or a file for its current context; ``None`` for the cluster in which this runs as a pod.

    Raises:
        GpuTopologyError: the kubeconfig cannot be read, or has no such context.
    """
    if cluster is not None:
        from webhook.cluster.api.contexts import Context
        from webhook.cluster.api.kubeconfig_files import namespace_of

        return namespace_of(Context((cluster,)) if isinstance(cluster, Path) else cluster)
    from webhook.cluster.api.service_account import DIRECTORY

    try:
        own = (DIRECTORY / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        own = ""
    return own or DEFAULT_NAMESPACE
