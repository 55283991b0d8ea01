"""The versions of HAMi and Kubernetes from the command line."""

from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from webhook.decisions.cluster_facts import ClusterFacts
    from webhook.decisions.configuration import AdmitPolicy
    from webhook.words.version import Version

HAMI_OPTION = typer.Option(metavar="VERSION", help="HAMi's version, such as 2.9.0; overrules all others.")
KUBERNETES_OPTION = typer.Option(metavar="VERSION", help="Kubernetes' version, such as 1.33; overrules all others.")


def given_versions(hami: str, kubernetes: str) -> "ClusterFacts":
    """Return the given versions; an empty text is none.

    Raises:
        typer.BadParameter: a text is no version, or one before the first with which this program works.
    """
    from webhook.decisions.cluster_facts import FIRST_HAMI, FIRST_KUBERNETES, ClusterFacts

    return ClusterFacts(
        hami=_version(hami, "--hami-version", FIRST_HAMI),
        kubernetes=_version(kubernetes, "--kubernetes-version", FIRST_KUBERNETES),
    )


def overruled(policy: "AdmitPolicy", given: "ClusterFacts") -> "AdmitPolicy":
    """Return the policy with these versions in place of all others."""
    from msgspec.structs import replace

    return replace(policy, versions=policy.versions.overruled_by(given))


def read_version(text: str, option: str) -> "Version | None":
    """Return the version of an option; None if the text is empty.

    Raises:
        typer.BadParameter: the text is no version.
    """
    from webhook.words.errors import FormatError, shorten
    from webhook.words.version import Version

    try:
        return Version.parse(text, source=option) if text else None
    except FormatError as error:
        said = f"expected {error.expected}, found {shorten(error.found)}"
        raise typer.BadParameter(said, param_hint=option) from None


def _version(text: str, option: str, first: "Version") -> "Version | None":
    version = read_version(text, option)
    if version and version < first:
        from webhook.words.errors import shorten

        said = f"expected {first.major}.{first.minor} or later, found {shorten(text)}"
        raise typer.BadParameter(said, param_hint=option)
    return version
