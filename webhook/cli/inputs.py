"""What several commands read: the configuration, the state, and the policy that follows from them."""

from pathlib import Path

from webhook import __version__
from webhook.config import AdmitPolicy, Config, admit_policy, parse_config
from webhook.manifest.documents import read_yaml
from webhook.model.errors import ConfigError, ManifestError
from webhook.state.directory import DirectoryState, load_directory


def read_settings(path: Path | None) -> tuple[Config, AdmitPolicy]:
    """The configuration file, or all defaults, and the policy that follows from it.

    Raises:
        ConfigError: it cannot be read or used; the text names the file and the setting.
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
    """The state directory, if one is given."""
    return None if path is None else load_directory(path)
