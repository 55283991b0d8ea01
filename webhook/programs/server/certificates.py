"""The certificate of the server and its three sources: the cluster, files that others renew, or a self-signed one."""

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from platform import node
from time import monotonic
from typing import TYPE_CHECKING
from uuid import uuid4

from certs.certificate import issue
from certs.context import LiveContext
from certs.keeper import FileKeeper, Keeper, Served
from webhook.cluster.api.contexts import Where
from webhook.decisions.configuration import CertificateSettings, Config
from webhook.programs.log import Log
from webhook.programs.server.vitals import Vitals
from webhook.words import names
from webhook.words.errors import GpuTopologyError

if TYPE_CHECKING:
    from certs.objects import CertificateSpec

SELF_SIGNED_LIFETIME = timedelta(days=30)
SELF_SIGNED_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Certificates:
    """The TLS context of the server, and the work that keeps its certificate up to date."""

    context: ssl.SSLContext
    background: Sequence[FileKeeper | Keeper]
    """The keepers of certificate and authority, to be opened before the server listens."""
    served: Served
    """The certificate that is served now, and the number of failures of its keepers."""

    def add_to(self, vitals: Vitals) -> Vitals:
        """Return ``vitals`` with the values about certificates."""
        served = self.served
        return replace(
            vitals,
            certificate_ends=served.certificate_ends,
            authority_ends=served.authority_ends,
            certificate_failures=served.failures,
            certificate_leader=served.leads,
        )


def self_signed(config: Config, ca_file: Path | None, log: Log) -> Certificates:
    """Make a certificate for this machine, for a first try, and write its authority to ``ca_file``.

    Raises:
        GpuTopologyError: ``ca_file`` cannot be written.
        BundleError: the authority of clients cannot be used.
    """
    bundle = issue(SELF_SIGNED_NAMES, now=datetime.now(UTC), lifetime=SELF_SIGNED_LIFETIME)
    if ca_file is not None:
        try:
            ca_file.write_bytes(bundle.authority)
        except OSError as error:
            raise GpuTopologyError(f"--ca-file {ca_file}: cannot be written: {error.strerror}") from None
    live, clients = _live(config, log)
    live.replace(bundle=bundle)
    served = Served()
    served.take(bundle)
    return Certificates(live.listening, clients, served)


def from_files(config: Config, directory: Path, log: Log) -> Certificates:
    """Return the certificate of a directory. Its files are read again when they change.

    Raises:
        BundleError: the files cannot be used.
    """
    authority = _client_authority(config)
    live = LiveContext(demands_clients=authority is not None)
    files = FileKeeper(live, log.say, directory=directory, client_authority=authority)
    files.look()
    return Certificates(live.listening, (files,), files.served)


def managed(
    config: Config, *, kubeconfig: Where, namespace: str, log: Log, environment: Mapping[str, str] = os.environ
) -> Certificates:
    """Return the certificate that all replicas of the webhook keep in a Secret of the cluster.

    Args:
        config: The configuration, with names and lifetimes.
        kubeconfig: The kubeconfig that names the API server; ``None`` for the one of the cluster in which this program
            runs as a pod.
        namespace: The namespace of the Secret and the Service.
        log: Takes a line for each action and each failure.
        environment: The variables of the environment, which name this pod.

    Raises:
        ConfigError: there is no way to an API server.
        BundleError: the authority of clients cannot be used.
    """
    # Imported here, because a server with files starts faster without them.
    from certs.rounds import Pace, Replica  # noqa: PLC0415
    from webhook.cluster.api import certificates, session  # noqa: PLC0415

    settings = config.certificates
    spec = spec_of(settings, namespace)
    cluster = certificates.CertificateRequests(
        session.connect(kubeconfig, user_agent=names.WEBHOOK_USER_AGENT, seconds=certificates.SECONDS),
        spec,
        identity=f"{environment.get(names.WEBHOOK_POD_NAME) or node().lower()}_{uuid4().hex}",
        lease_seconds=4 * settings.check_seconds,
    )
    live, clients = _live(config, log)
    pace = Pace(check=settings.check_seconds, settle=settings.settle_seconds, overlap=settings.overlap_seconds)
    keeper = Keeper(Replica(cluster, spec, pace, monotonic), live, log.say)
    return Certificates(live.listening, (*clients, keeper), keeper.served)


def spec_of(settings: CertificateSettings, namespace: str) -> "CertificateSpec":
    """Return the settings in the form of ``certs``."""
    from certs.objects import CertificateSpec  # noqa: PLC0415 - as above

    return CertificateSpec(
        namespace=namespace,
        secret=settings.secret,
        secret_type=names.CERTIFICATES_TYPE,
        rotate=names.CERTIFICATES_ROTATE,
        service=settings.service,
        configuration=settings.webhook_configuration,
        lifetime=timedelta(days=settings.lifetime_days),
        authority_lifetime=timedelta(days=settings.authority_lifetime_days),
        additional_names=settings.additional_names,
    )


def _live(config: Config, log: Log) -> tuple[LiveContext, tuple[FileKeeper, ...]]:
    """Return a context without a certificate, and the keeper of the authority of clients if these need certificates."""
    authority = _client_authority(config)
    live = LiveContext(demands_clients=authority is not None)
    if authority is None:
        return live, ()
    files = FileKeeper(live, log.say, client_authority=authority)
    files.look()
    return live, (files,)


def _client_authority(config: Config) -> Path | None:
    return Path(config.server.client_authority) if config.server.client_authority else None
