"""The command ``gpu-topology``. ``remap`` has milliseconds, so it goes past the libraries of the command line."""

import sys

_OURS = ("certs", "webhook")


def main() -> None:
    """Run the command that the arguments name."""
    if sys.argv[1:2] == ["remap"]:
        from webhook.remap.program import main as remap  # noqa: PLC0415 - each loads only what it uses

        sys.exit(remap())
    try:
        from webhook.cli.main import main as others  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        if missing.name is None or missing.name.partition(".")[0] in _OURS:
            raise
        sys.exit(
            f"gpu-topology: the Python package {missing.name} is not installed. The image gpu-topology-remap has only "
            "the command remap; the image gpu-topology-webhook has all commands"
        )
    others()
