"""Sentences about rights at the API server that the caller of a command lacks, in the area 8."""

from webhook.words.catalogue.entry import Entry

_RIGHTS = "rights.md"

READER_MISSING = Entry(
    "GT864",
    "your rights do not allow all that was to be read",
    "Have an administrator bind the ClusterRole gpu-topology-reader of the chart to you",
    _RIGHTS,
)
NODES_NOT_SHOWN = Entry(
    "GT865",
    "nodes could not be listed, so no node and no card is shown: {problem}",
    READER_MISSING.fix,
    _RIGHTS,
)
CERTIFICATES_NOT_KNOWN = Entry(
    "GT866",
    "the certificates are not known, because their Secret could not be read: {problem}",
    "Run gpu-topology certs show as an administrator. The ClusterRole gpu-topology-reader has no Secrets",
    _RIGHTS,
)
UNLINKED_AT_BINDING = Entry(
    "GT867",
    "NVLink does not join all these GPUs: {told}",
    f"{READER_MISSING.fix}: then explain names the pairs without NVLink",
    _RIGHTS,
)
