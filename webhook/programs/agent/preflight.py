"""The preflight at the start (``--preflight``); the results are published with the topology.

A thread of its own tries free GPUs. The agent publishes that trials begin before they begin. If they end the program,
for example because there is too little memory for CUDA, the next start reads this mark and does not try for an hour.
"""

import threading
import traceback
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from webhook.hardware.topology.model import NodeTopology, Preflight
from webhook.hardware.topology.preflight import begun, is_due, newest, with_trials
from webhook.programs.agent.log import AgentLog
from webhook.words.errors import GpuTopologyError


class PreflightTrials:
    """The known results of the preflight of this node, and the thread that tries.

    Args:
        attempt: Tries free GPUs; takes the time of the trials in RFC 3339, and raises GpuTopologyError if nothing can
            be tried now.
        log: Receives the outcome.
    """

    def __init__(self, attempt: Callable[[str], Preflight], log: AgentLog) -> None:
        self._attempt, self._log = attempt, log
        self._known: Preflight | None = None
        self._driver: str | None = None
        """The driver with which the known results were found; None before the first publication."""
        self._found: Preflight | None = None
        """The results of the last thread, which writes them."""
        self._thread: threading.Thread | None = None
        self._is_announced = self._has_begun = False

    @property
    def is_running(self) -> bool:
        """Whether GPUs are being tried."""
        return self._thread is not None and self._thread.is_alive()

    def told(self, topology: NodeTopology) -> NodeTopology:
        """Returns a discovered topology with the known results, if they were found with its driver."""
        if self._driver != topology.driver_version:
            return topology
        return replace(topology, preflight=self._found or self._known)

    def announced(self, topology: NodeTopology, published: NodeTopology | None, at: datetime) -> NodeTopology:
        """Returns a topology for publication, with the known results and the mark of trials that will begin.

        Args:
            topology: The discovered topology.
            published: The topology that the cluster has, perhaps with results of an earlier agent.
            at: The time.
        """
        if not topology.driver_version:  # the driver gives no answer; what was found with it may hold again
            return topology
        if self._driver != topology.driver_version:
            self._known = with_trials(topology, published).preflight
            self._driver, self._found = topology.driver_version, None
        told = self.told(topology)
        if not self.is_running and not self._is_announced and is_due(told, at, is_start=not self._has_begun):
            self._is_announced = True
            self._known, self._found = begun(told.preflight, at), None
        return self.told(topology)

    def begin(self) -> None:
        """Starts announced trials. To be called after the announcement was published."""
        if self._is_announced and self._known:
            self._is_announced, self._has_begun = False, True
            self._thread = threading.Thread(target=self._run, args=[self._known], name="preflight", daemon=True)
            self._thread.start()

    def _run(self, known: Preflight) -> None:
        try:
            found = self._attempt(known.at)
        except GpuTopologyError as nothing:
            self._log.not_tried(str(nothing))
        except Exception:  # an odd machine must not end the program that reports on it
            self._log.bug(traceback.format_exc())
        else:
            self._found = newest(known, found)
            self._log.tried(found)
