"""The fixture of running servers."""

from tests.programs.server.conftest import start_server

__all__ = ["start_server"]
