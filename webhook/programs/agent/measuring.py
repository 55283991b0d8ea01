"""``--verify-at-start``: measures the free GPUs once, in a thread of its own; what it finds goes with the topology.

That a measurement begins is published before it does. If it ends the program, for example because there is too little
memory for CUDA, the next start finds that and does not try again for a day.
"""

import threading
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta

from webhook.hardware.measurement.measurements import measurements
from webhook.hardware.measurement.report import BandwidthReport
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
"""GPUs that were in use at one start are measured at a later one."""


class Measuring:
    """What is known of the bandwidth between the GPUs of this node.

    Args:
        measure: Measures the free GPUs; takes minutes, and raises GpuTopologyError if there is nothing to measure.
        log: Is told what came of it.
    """

    def __init__(self, measure: Callable[[], BandwidthReport], log: AgentLog) -> None:
        self._measure, self._log = measure, log
        self._known: Measurements | None = None
        self._found: Measurements | None = None
        """What this program measured. Written by the thread that measures."""
        self._thread: threading.Thread | None = None
        self._is_announced = False

    def told(self, topology: NodeTopology) -> NodeTopology:
        """A topology as it was discovered, with what is known of its bandwidth."""
        if self._known is None:
            return topology
        found = self._found
        return with_measurements(topology, self._known.with_newer(found) if found else self._known)

    def announced(self, topology: NodeTopology, published: NodeTopology | None, at: datetime) -> NodeTopology:
        """The same before it is published; if a measurement shall begin, it says so.

        Args:
            topology: As it was discovered.
            published: What the cluster has: an earlier agent may have measured.
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
        """What was announced is published: measure, unless that was begun already."""
        if self._is_announced and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="measuring", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        try:
            found = measurements(self._measure())
        except GpuTopologyError as nothing:
            self._log.not_measured(str(nothing))
        except Exception:  # an odd machine must not end the program that tells of it
            self._log.bug(traceback.format_exc())
        else:
            self._found = found
            slower = sum(pair.is_slower for pair in found.pairs.values())
            self._log.measured(pairs=len(found.pairs), slower=slower)


def _is_due(topology: NodeTopology, at: datetime) -> bool:
    """Whether GPUs were not measured yet, and no measurement began lately."""
    began = parse_timestamp(topology.measured_at)
    return has_unmeasured_pair(topology) and (began is None or not began <= at < began + AGAIN_AFTER)
