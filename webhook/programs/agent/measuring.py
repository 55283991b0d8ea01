"""The measurement of the free GPUs at the start (``--verify-at-start``); the result is published with the topology.

A thread of its own measures once. The agent publishes that a measurement begins before it begins. If the measurement
ends the program, for example because there is too little memory for CUDA, the next start reads this mark and does not
measure for a day.
"""

import threading
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta

from webhook.hardware.measurement.report import BandwidthReport
from webhook.hardware.measurement.summary import measurements
from webhook.hardware.topology.measured_pairs import (
    Measurements,
    has_unmeasured_pair,
    measurements_of,
    with_measurements,
)
from webhook.hardware.topology.model import NodeTopology
from webhook.programs.agent.log import AgentLog
from webhook.words.errors import GpuTopologyError
from webhook.words.timestamp import format_timestamp, parse_timestamp

AGAIN_AFTER = timedelta(days=1)
"""The shortest time between two measurements. GPUs in use at one start are measured at a later one."""


class Measuring:
    """The known bandwidths between the GPUs of this node, and the thread that measures them.

    Args:
        measure: Measures the free GPUs; takes minutes, and raises GpuTopologyError if there is nothing to measure.
        log: Receives the outcome.
    """

    def __init__(self, measure: Callable[[], BandwidthReport], log: AgentLog) -> None:
        self._measure, self._log = measure, log
        self._known: Measurements | None = None
        self._found: Measurements | None = None
        """The measurements of this process. The thread that measures writes them."""
        self._thread: threading.Thread | None = None
        self._is_announced = False

    @property
    def is_running(self) -> bool:
        """Whether GPUs are being measured."""
        return self._thread is not None and self._thread.is_alive()

    def told(self, topology: NodeTopology) -> NodeTopology:
        """Returns a discovered topology with its known bandwidths."""
        if self._known is None:
            return topology
        found = self._found
        return with_measurements(topology, self._known.with_newer(found) if found else self._known)

    def announced(self, topology: NodeTopology, published: NodeTopology | None, at: datetime) -> NodeTopology:
        """Returns a topology for publication, with its known bandwidths and the mark of a measurement that will begin.

        Args:
            topology: The discovered topology.
            published: The topology that the cluster has, perhaps with measurements of an earlier agent.
            at: The time.
        """
        if self._known is None:
            self._known = measurements_of(published or topology)
        if not self._is_announced and _is_due(self.told(topology), at):
            self._is_announced = True
            begins = Measurements(at=format_timestamp(at), driver=topology.driver_version)
            self._known = self._known.with_newer(begins)
        return self.told(topology)

    def begin(self) -> None:
        """Starts an announced measurement, once. To be called after the announcement was published."""
        if self._is_announced and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="measuring", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            found = measurements(self._measure())
        except GpuTopologyError as nothing:
            self._log.not_measured(str(nothing))
        except Exception:  # an odd machine must not end the program that reports on it
            self._log.bug(traceback.format_exc())
        else:
            self._found = found
            slower = sum(pair.is_slower for pair in found.pairs.values())
            self._log.measured(pairs=len(found.pairs), slower=slower)


def _is_due(topology: NodeTopology, at: datetime) -> bool:
    """Returns whether some pair is unmeasured and no measurement began in the last day."""
    began = parse_timestamp(topology.measured_at)
    return has_unmeasured_pair(topology) and (began is None or not began <= at < began + AGAIN_AFTER)
