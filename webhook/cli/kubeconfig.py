"""Where the kubeconfig is when none is given."""

import os
from pathlib import Path


def usual_kubeconfig() -> Path | None:
    """Where kubectl looks: the first file of ``KUBECONFIG``, the pod's own account (``None``), ``~/.kube/config``.

    Raises:
        ConfigError: there is none of them.
    """
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    found = next((path for path in named if path.exists()), None)
    if found is not None:
        return found
    if not named and "KUBERNETES_SERVICE_HOST" in os.environ:
        return None
    usual = Path(os.environ.get("HOME", "/")) / ".kube" / "config"
    if not named and usual.exists():
        return usual
    from webhook.model.errors import ConfigError, shorten

    if named:
        said = f"$KUBECONFIG names {shorten(os.environ['KUBECONFIG'])}, of which nothing exists"
    else:
        said = f"$KUBECONFIG is not set, and ~/.kube/config ({usual}) does not exist"
    raise ConfigError(f"no kubeconfig: {said}. Give --kubeconfig FILE")


def namespace_of_context(kubeconfig: Path | None, context: str = "") -> str:
    """The namespace in which kubectl would look; in a pod its own.

    Args:
        kubeconfig: The file; ``None`` for the cluster in which this runs as a pod.
        context: Of the kubeconfig; empty for the current one.

    Raises:
        GpuTopologyError: the kubeconfig cannot be read, or has no such context.
    """
    if kubeconfig is not None:
        from webhook.kube.kubeconfig import current_namespace

        return current_namespace(kubeconfig, context)
    from webhook.kube.service_account import DIRECTORY

    try:
        own = (DIRECTORY / "namespace").read_text(encoding="utf-8").strip()
    except OSError:
        own = ""
    return own or "default"
