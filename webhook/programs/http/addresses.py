"""Addresses are taken before anything else is begun, so that one that cannot be had is an error of the start."""

import socket

from webhook.words.errors import GpuTopologyError


def bind(host: str, port: int, *, remedy: str) -> socket.socket:
    """A socket at that address, which takes connections only once a server listens there.

    Args:
        host: Name or address.
        port: 0: any.
        remedy: Which options of the command line choose another address, as in ``Choose others with --port``.

    Raises:
        GpuTopologyError: the address cannot be had.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise GpuTopologyError(f"cannot listen on {host} port {port}: {error.strerror}. {remedy}") from None
    return bound
