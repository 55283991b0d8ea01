"""The common inputs of commands: the configuration, the state, and the policy that follows from them."""

from pathlib import Path

from webhook import __version__
from webhook.cluster.files.claim_manifests import NO_OBJECTS, ClaimObjects, claim_objects, is_about_claims
from webhook.cluster.files.manifests import read_files
from webhook.cluster.files.state import DirectoryState, load_claims
from webhook.decisions.configuration import AdmitPolicy, ClaimSettings, Config, admit_policy, parse_config
from webhook.objects.manifest.manifest import Manifest, read_yaml
from webhook.objects.manifest.pods import decode_pod, in_namespace, to_json
from webhook.objects.pod import Namespace, Pod
from webhook.words import names
from webhook.words.errors import ConfigError, ManifestError
from webhook.words.printable import printable


def read_settings(path: Path | None) -> tuple[Config, AdmitPolicy]:
    """Read the configuration file, or take all defaults, and return it with the policy that follows from it.

    Raises:
        ConfigError: the file cannot be read or used; the text names the file and the setting.
    """
    if path is None:
        return Config(), admit_policy(Config(), version=__version__)
    try:
        documents = read_yaml(path)
        if len(documents) > 1:
            raise ConfigError(f"expected one YAML document, found {len(documents)}")
        config = parse_config(documents[0] if documents else None)
        return config, admit_policy(config, version=__version__)
    except ManifestError as error:
        raise ConfigError(str(error)) from None
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def read_state(path: Path | None) -> DirectoryState | None:
    """Load the state directory, if one is given."""
    return None if path is None else DirectoryState(path)


def read_claims(path: Path | None, settings: ClaimSettings) -> ClaimObjects:
    """Load the objects about claims from a state directory; none if the configuration does not enable claims.

    Raises:
        ManifestError: a file cannot be read, or is no YAML.
        FormatError: an object has another shape, or an old version of the API.
    """
    return NO_OBJECTS if path is None or not settings.enabled else load_claims(path)


def namespace_in(state: DirectoryState | None, name: str) -> Namespace:
    """Return the namespace; without a state directory one that has opted in and has no permissions."""
    return state.namespace(name) if state else Namespace(name, {names.INJECTION: "enabled"})


def read_pod_file(file: str, default_namespace: str, policy: AdmitPolicy) -> tuple[Pod, str, ClaimObjects]:
    """Read the pod in a file (``-``: standard input); returns it, the file's name in messages, and its claim objects.

    Raises:
        ManifestError: the file cannot be read, holds anything but one Pod, or a field has another type than in a pod.
        FormatError: an object about claims has another shape, or an old version of the API.
    """
    (manifest,) = read_files([file], recursive=False)
    source = manifest.source
    documents = Manifest(manifest.text, source).documents
    claims = NO_OBJECTS
    if policy.claims.enabled:
        claims = claim_objects(((document, source) for document in documents), default_namespace)
        documents = [document for document in documents if not is_about_claims(document)]
    kinds = [document.get("kind") if isinstance(document, dict) else None for document in documents]
    if kinds != ["Pod"]:
        found = ", ".join(printable(kind) if isinstance(kind, str) else "something else" for kind in kinds)
        raise ManifestError(f"{source}: expected one Pod, found {found or 'nothing'}")
    pod = decode_pod(to_json(documents[0], source), source)
    if not pod.metadata or not pod.metadata.name:
        raise ManifestError(f"{source}: expected a Pod with a name, found none")
    return in_namespace(pod, default_namespace), source, claims
