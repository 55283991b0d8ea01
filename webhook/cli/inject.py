"""``gpu-topology inject``: the changes of the webhook to a workload."""

import difflib
import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from webhook.cli.candidates import namespaces
from webhook.cli.complaint import complain
from webhook.cli.kubeconfig import (
    ContextOption,
    KubeconfigOption,
    OfflineOption,
    UsedCluster,
    cluster_if_any,
    namespace_of_context,
)
from webhook.cli.scope_options import FILE_OPTION, RECURSIVE_OPTION
from webhook.cli.versions import HAMI_OPTION, KUBERNETES_OPTION
from webhook.cluster.files.manifests import ManifestFile
from webhook.words.names import DEFAULT_NAMESPACE
from webhook.words.printable import printable

if TYPE_CHECKING:
    from webhook.cli.workload import ClaimSpecs, Injection, Surroundings
    from webhook.decisions.configuration import AdmitPolicy, Config

    Done = tuple[ManifestFile, Injection]


class Output(enum.StrEnum):
    """The form of the output."""

    YAML = "yaml"
    PATCH = "patch"
    DIFF = "diff"


def inject(  # noqa: PLR0913, PLR0917 - one argument for each option of the command
    file: Annotated[list[str], FILE_OPTION],
    recursive: Annotated[bool, RECURSIVE_OPTION] = False,
    state: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="State directory: namespaces/*.yaml, claims/*.yaml, cluster.yaml."),
    ] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE", help="Configuration file.")] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = "",
    offline: OfflineOption = False,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            metavar="NAMESPACE",
            autocompletion=namespaces,
            help="For manifests that name none; without, that of the cluster's context, or default.",
        ),
    ] = "",
    hami_version: Annotated[str, HAMI_OPTION] = "",
    kubernetes_version: Annotated[str, KUBERNETES_OPTION] = "",
    output: Annotated[
        Output, typer.Option("--output", "-o", help="yaml (JSON stays JSON), patch (JSON) or diff.")
    ] = Output.YAML,
) -> None:
    """Print workloads as the webhook would change them in the cluster, as it is now.

    No cluster is asked with --offline, with --state, with a version, and where kubectl would find none.
    Warnings, notes and refusals go to stderr. A refused pod ends with exit code 1 and nothing on stdout.
    """
    from webhook.cli.inputs import read_settings
    from webhook.cli.versions import given_versions, overruled
    from webhook.cli.workload.versions import unknown_versions, version_note
    from webhook.cluster.files.manifests import read_files

    in_files, described = state is not None, bool(hami_version or kubernetes_version)
    cluster = cluster_if_any(kubeconfig, context, offline=offline, in_files=in_files, described=described)
    given = given_versions(hami_version, kubernetes_version)
    settings, policy = read_settings(config)
    policy = overruled(policy, given)
    files = list(read_files(file, recursive=recursive))
    namespace = namespace or (namespace_of_context(cluster.where) if cluster else DEFAULT_NAMESPACE)
    with _surroundings(state, cluster, settings, policy) as (known, claims):
        done = list(zip(files, _injected(files, policy, known, claims, namespace), strict=True))
        facts = (known.cluster() if known else given).overruled_by(policy.versions)
    for line in _notes(done):
        complain(line)
    dependent = frozenset[str]().union(*(injection.version_dependent for _, injection in done))
    if note := version_note(unknown_versions(facts), dependent):
        complain(note)
    if any(injection.refused for _, injection in done):
        raise typer.Exit(1)
    typer.echo(_encoded(_render(output, done)), nl=False)


@contextmanager
def _surroundings(
    state: Path | None, cluster: UsedCluster | None, settings: "Config", policy: "AdmitPolicy"
) -> "Iterator[tuple[Surroundings | None, ClaimSpecs]]":
    """Open the known facts of the cluster, and of claims, until the end of the block."""
    from webhook.cli.inputs import read_claims, read_state

    if cluster is None:
        yield read_state(state), read_claims(state, policy.claims)
        return
    from webhook.cli.surroundings import ClusterSurroundings
    from webhook.cluster.snapshot.model import Setting
    from webhook.cluster.snapshot.pod_surroundings import around

    setting = Setting(policy=policy, registration=settings.certificates.webhook_configuration)
    with around(cluster.where, setting, complain) as asked:
        found = ClusterSurroundings(asked, policy)
        yield found, found


def _injected(
    files: "Sequence[ManifestFile]",
    policy: "AdmitPolicy",
    known: "Surroundings | None",
    claims: "ClaimSpecs",
    namespace: str,
) -> "Iterator[Injection]":
    """Inject each file. A template of claims may be in another file than its workload."""
    from webhook.cli.workload import FirstOf, inject
    from webhook.cluster.files.claim_manifests import claim_objects
    from webhook.objects.manifest.manifest import Manifest

    manifests = (Manifest(file.text, file.source) for file in files)
    if policy.claims.enabled and len(files) > 1:  # the claims of a single file are read with its pods
        read = list(manifests)
        documents = [(document, manifest.source) for manifest in read for document in manifest.documents]
        manifests, claims = (each for each in read), FirstOf(claim_objects(documents, namespace), claims)
    for manifest in manifests:
        yield inject(manifest, policy, known, default_namespace=namespace, claims=claims)


def _notes(done: "Sequence[Done]") -> Iterator[str]:
    if not any(injection.templates or injection.elsewhere for _, injection in done):
        yield "note: there is no pod template in it"
    for manifest, injection in done:
        for note in injection.notes():
            word, _, text = note.partition(": ")
            yield note if len(done) == 1 else f"{word}: {manifest.source}: {text}"


def _render(output: Output, done: "Sequence[Done]") -> str:
    if output is Output.YAML:
        return joined([(injection.text, injection.is_json) for _, injection in done])
    if output is Output.DIFF:
        return "".join(unified_diff(injection.before, injection.text, manifest.source) for manifest, injection in done)
    from webhook.objects.review import encode_patch

    return "".join(encode_patch(patch).decode() + "\n" for _, injection in done for patch in injection.patches())


def joined(texts: Sequence[tuple[str, bool]]) -> str:
    """Join several manifests to one that kubectl reads: JSON one after the other, YAML with separators between.

    Args:
        texts: Each text, and whether it is JSON. A single text stays unchanged.
    """
    if len(texts) == 1:
        return texts[0][0]
    from webhook.objects.manifest.manifest import format_json, parse_json

    if all(is_json for _, is_json in texts):
        return "".join(_ended(text) for text, _ in texts)
    parts: list[str] = []
    for text, is_json in texts:
        if is_json:  # a stream of JSON is no YAML: each of its documents needs a separator
            parts.extend(f"---\n{format_json([value])}" for value in parse_json(text, "the output"))
        elif text.strip():
            body = text.removeprefix("\ufeff")
            parts.append(_ended(body if not parts or body.startswith(("---", "%")) else f"---\n{body}"))
    return "".join(parts)


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else f"{text}\n"


def _encoded(text: str) -> bytes:
    """Encode a manifest as UTF-8 in any setting of the terminal, for pipes and files.

    Raises:
        ManifestError: an escape in the manifest stands for half of a character.
    """
    from webhook.words.errors import ManifestError

    try:
        return text.encode()
    except UnicodeEncodeError as error:
        code = f"\\u{ord(text[error.start]):04x}"
        raise ManifestError(f"expected text, found the escape {code}, which stands for half of a character") from None


def unified_diff(before: str, after: str, source: str) -> str:
    """Return the changes in the form of ``diff -u``."""
    old, new = (text.removesuffix("\n").split("\n") for text in (before, after))
    lines = difflib.unified_diff(old, new, printable(source), f"{printable(source)} (injected)", lineterm="")
    return "".join(f"{line}\n" for line in lines)
