"""The command ``gpu-topology``. ``remap`` has milliseconds, so it goes past the libraries of the command line."""

import sys


def main() -> None:
    """Run the command that the arguments name."""
    if sys.argv[1:2] == ["remap"]:
        from webhook.remap.program import main as remap  # noqa: PLC0415 - each loads only what it uses

        sys.exit(remap())
    from webhook.cli.main import main as others  # noqa: PLC0415

    others()
