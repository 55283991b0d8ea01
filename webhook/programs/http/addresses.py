"""The sockets of servers. Programs bind them before anything else, so that a taken address is an error of the start."""

import socket

from webhook.words.errors import GpuTopologyError


def bind(host: str, port: int, *, remedy: str) -> socket.socket:
    """Return a socket bound to that address. It takes connections only once a server listens on it.

    Args:
        host: Name or address.
        port: The port; 0 for any free one.
        remedy: The end of the error message, which names the options of the command line that choose another address,
            as in ``Choose others with --port``.

    Raises:
        GpuTopologyError: the address is taken or cannot be used.
    """
    bound = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        raise GpuTopologyError(f"cannot listen on {host} port {port}: {error.strerror}. {remedy}") from None
    return bound
