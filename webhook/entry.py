"""The command ``gpu-topology``, also as a plugin of kubectl.

``remap`` must start in milliseconds, so it does not load the libraries of the command line.
"""

import sys

_OURS = ("certs", "webhook")


def main() -> None:
    """Run the command that the arguments name."""
    if sys.argv[1:2] == ["remap"]:
        from webhook.programs.remap.program import main as remap  # noqa: PLC0415 - each command loads only its own code

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


def plugin() -> None:
    """The program ``kubectl-gpu_topology``, by which kubectl knows ``kubectl gpu-topology``."""
    from webhook.cli.main import main as run  # noqa: PLC0415

    run("kubectl gpu-topology")
