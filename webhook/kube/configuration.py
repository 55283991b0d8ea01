"""How to reach the API server: as a pod of the cluster, or by a kubeconfig."""

from pathlib import Path

from kubernetes import config
from kubernetes.client import Configuration
from kubernetes.config.config_exception import ConfigException

from webhook.manifest.documents import read_yaml
from webhook.model.errors import ConfigError


def load_configuration(kubeconfig: Path | None) -> Configuration:
    """What a kubeconfig says or, without one, what the cluster tells a program that runs in it as a pod.

    Raises:
        ConfigError: there is no such configuration, or it cannot be used.
        ManifestError: the kubeconfig cannot be read.
    """
    configuration = Configuration()
    if kubeconfig is None:
        _from_cluster(configuration)
    else:
        _from_file(configuration, kubeconfig)
    return configuration


def _from_cluster(configuration: Configuration) -> None:
    try:
        config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # kubernetes has no annotations there
    except (ConfigException, OSError) as error:
        raise ConfigError(
            f"expected to run as a pod with a service account: {error} Outside of a cluster give --kubeconfig FILE"
        ) from None


def _from_file(configuration: Configuration, path: Path) -> None:
    documents = read_yaml(path)  # says better than the client what is wrong with a file
    if not all(isinstance(document, dict) for document in documents):
        raise ConfigError(f"{path}: expected a kubeconfig: it is no mapping")
    try:
        config.load_kube_config(  # type: ignore[no-untyped-call]  # kubernetes has no annotations there
            str(path), client_configuration=configuration, persist_config=False
        )
    except (ConfigException, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise ConfigError(f"{path}: expected a kubeconfig: {error}") from None
