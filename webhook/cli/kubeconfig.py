"""The cluster of a command: the options ``--kubeconfig`` and ``--context``, and kubectl's defaults."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

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


OfflineOption = Annotated[bool, typer.Option("--offline", help="Ask no cluster, even where kubectl would find one.")]
"""The option of commands that can do without a cluster."""


class UsedCluster(NamedTuple):
    """A cluster that a command uses, apart from none."""

    where: "Context | None"
    """None stands for the one in which this runs as a pod."""


def cluster_if_any(
    kubeconfig: Path | None, context: str, *, offline: bool, in_files: bool, described: bool = False
) -> UsedCluster | None:
    """Return the cluster of a command that can do without one: the named one, else kubectl's; None if there is none.

    One that the options do not name is told on standard error, so that silence means that no cluster is asked.

    Args:
        kubeconfig: The value of ``--kubeconfig``.
        context: The value of ``--context``.
        offline: Whether ``--offline`` is given.
        in_files: Whether files or a state directory stand for the cluster.
        described: Whether other options say what a cluster would, so that only one that is named is asked.

    Raises:
        BadParameter: a cluster is named, and none is to be asked.
        ConfigError: only a context is given, and there is no kubeconfig.
    """
    if offline:
        refuse_cluster(kubeconfig, context, "--offline asks no cluster")
    if in_files:
        refuse_cluster(kubeconfig, context, "give either files or a cluster")
    if kubeconfig is not None or context:
        return UsedCluster(wanted_cluster(kubeconfig, context))
    found = None if offline or in_files or described else _usual(context)
    name = _name(found) if found else ""
    if found is None or not name:
        return None
    from webhook.cli.complaint import complain

    complain(f"note: in the cluster of {name}, as kubectl; --offline asks no cluster")
    return found


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
    """Find the cluster as kubectl does: ``KUBECONFIG``, else ``~/.kube/config``, else the pod's own account (``None``).

    Args:
        context: The context in the files; empty for the current one. A pod's own account has none.

    Raises:
        ConfigError: none of them exists.
    """
    found = _usual(context)
    if found:
        return found.where
    from webhook.words.errors import ConfigError, shorten

    if _named_files():
        said = f"$KUBECONFIG names {shorten(os.environ['KUBECONFIG'])}, of which nothing exists"
    else:
        said = f"$KUBECONFIG is not set, and ~/.kube/config ({_file_at_home()}) does not exist"
    raise ConfigError(f"no kubeconfig: {said}. Give --kubeconfig FILE")


def _usual(context: str) -> UsedCluster | None:
    from webhook.cluster.api.contexts import Context
    from webhook.cluster.api.kubeconfig_files import exists

    named = _named_files()
    files = tuple(dict.fromkeys(filter(exists, named or [_file_at_home()])))
    if files:
        return UsedCluster(Context(files, context))
    from webhook.cluster.api.service_account import HOST

    return UsedCluster(None) if HOST in os.environ and not named and not context else None


def _named_files() -> list[Path]:
    return [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]


def _file_at_home() -> Path:
    return Path(os.environ.get("HOME", "/")) / ".kube" / "config"


def _name(cluster: UsedCluster) -> str:
    """Return a name for people; empty if there is nothing to connect to, as after ``kind delete cluster``."""
    if cluster.where is None:
        from webhook.cluster.api.service_account import DIRECTORY

        return "this pod's service account" if (DIRECTORY / "token").exists() else ""
    from webhook.cluster.api.kubeconfig_files import current_context

    context = current_context(cluster.where)
    return context and f"context {context} ({cluster.where.source})"


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
