"""The attacks that take much of everything; what pods may say and do is tested on the functions that decide it."""

from tests.control_plane.attacks import pods, unfinished
from tests.control_plane.attacks.replay import Attack

MEMORY_MIB = 200.0
CHART_MIB = 512 * 0.8
"""The limit of the chart (``resources``), less a fifth."""
ATTACKS = (
    Attack(1, "a small pod, a large patch", pods.amplify, MEMORY_MIB),
    Attack(2, "requests without end", unfinished.run, MEMORY_MIB),
    Attack(3, "templates as long as may be", pods.fatten, CHART_MIB),
    Attack(4, "the longest pods", pods.lengthen, CHART_MIB),
)
