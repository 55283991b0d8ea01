"""`python -m bench`: the costs of one review and of the process, compared with a server that does nothing.

Six rows are measured in one run, on one machine, with bursts in turn:

- `bare`: a raw ASGI application that answers fixed bytes, on the webhook's uvicorn settings and TLS. The floor.
- `skipped`: the webhook and a pod of a CPU service, which it leaves alone.
- `injected`: the webhook and a pod with eight GPUs, which it patches. Each review has another container name.
- `watching`: like `injected`, with the state of a cluster of 5,000 nodes with eight GPUs. The state changes all the
  time, and is listed again every three seconds: 107 MB of JSON each time.
- `bound`: the Binding of a pod with four GPUs to a node with eight, each time another pod with other GPUs. The webhook
  reads the pod, 14 KB at that time, from a stand-in for the API server, over TLS.
- `claimed`: like `bound`, with GPUs by a resource claim and `claims.enabled`: it reads the pod, and then its claim.

The speed of a machine drifts by half within minutes, so the figure with a meaning is the ratio to `bare` in the same
round. Absolute microseconds and reviews per second describe the machine as much as the code. The measured values:

- CPU for one review: time on the CPU of the server process, user and system, kernel network work included, between
  the first byte sent and the last answer received, over the number of answers. Handshakes are not included.
- Latency as the client sees it, in a closed loop: a connection sends its next review when the last one is answered.
  At 64 connections that would only be 64 divided by the throughput, so it is not shown.
- Start: from the start of the process to its first answered review over TLS, Python's own start included. It is timed
  with a state directory, and also as the chart runs it: as a pod with access to the API server, where it reads its
  state and finds its certificates in a Secret. Its resident memory is taken after the first probe, and after 10,000
  reviews.
- Growth: resident memory of a fresh process after a warm-up, and again after `--growth` reviews with distinct uids.

The server has one core and the client another; with one core only they share it and reviews per second mean little.
A burst during which other processes had more than 15 % of those cores is repeated, three times at most.
A missed target does not change the exit code. Exit codes: 0 done, 1 a server failed, 2 usage. Linux only.
"""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
import tempfile
from pathlib import Path

import msgspec
from rich.console import Console

from bench import load, measure, report, servers

QUICK = measure.Plan(rounds=1, seconds=0.3, starts=1, growth=20_000)
FULL = measure.Plan(rounds=7, seconds=1.0, starts=5, growth=1_000_000)


def main() -> int:
    """Measures, prints, and returns the exit code."""
    arguments = parse()
    default = QUICK if arguments.quick else FULL
    chosen = {name: getattr(arguments, name) for name in ("rounds", "seconds", "growth")}
    plan = dataclasses.replace(default, **{name: value for name, value in chosen.items() if value is not None})
    servers.exit_on_sigterm()
    progress = Console(stderr=True)
    try:
        with progress.status("") as status, tempfile.TemporaryDirectory(prefix="bench-") as directory:
            results = measure.run(plan, Path(directory), status.update)
    except (servers.StartError, load.AnswerError, OSError) as failure:
        print(f"bench: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    report.show(results, plan, Console())
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(report.as_json(results, plan))))
    return 0


def parse() -> argparse.Namespace:
    """Parses the command line. An option that is not given is `None`: `--quick` or the full plan decides."""
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=positive, help=f"rounds of bursts ({FULL.rounds})")
    parser.add_argument("--seconds", type=float, help=f"length of one burst ({FULL.seconds:g})")
    parser.add_argument("--growth", type=int, help=f"reviews for the growth of memory ({FULL.growth}; 0: leave it out)")
    parser.add_argument("--quick", action="store_true", help="one short round: does it work at all?")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured to FILE")
    return parser.parse_args()


def positive(text: str) -> int:
    """Parses a number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {text}")
    return number


if __name__ == "__main__":
    sys.exit(main())
