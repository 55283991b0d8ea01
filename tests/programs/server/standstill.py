"""``python -m tests.programs.server.standstill GATE PORT OPS_PORT STALL_SECONDS``: a server whose reviews stand still.

A review opens the FIFO ``GATE`` on the event loop and reads it to its end, as a review would that takes without end.
"""

import ssl
import sys
from pathlib import Path

from msgspec.structs import replace

from webhook.cluster.files.state import DirectoryState
from webhook.decisions.configuration import Config, ServerSettings
from webhook.objects.envelope import PODS_PATH
from webhook.programs.server import certificates
from webhook.programs.server.app import reviews_app
from webhook.programs.server.counts import Counts
from webhook.programs.server.log import ReviewLog
from webhook.programs.server.run import run


def main(gate: str, port: str, ops_port: str, stall_seconds: str) -> None:
    """Serve until a signal."""
    settings = ServerSettings(
        host="127.0.0.1", port=int(port), ops_port=int(ops_port), stall_seconds=float(stall_seconds)
    )
    config = replace(Config(), server=settings)
    log = ReviewLog(sys.stdout.fileno())
    counts = Counts(lambda: 0)
    answers = {PODS_PATH: lambda _body, _started: Path(gate).read_bytes()}
    reviews = reviews_app(answers, log=log, counts=counts, longest_body=1024)
    context: ssl.SSLContext = certificates.self_signed(config, None, log).context
    run(config, reviews, DirectoryState(Path("examples/state")), context, log=log, counts=counts)


if __name__ == "__main__":
    main(*sys.argv[1:])
