"""The attacks: nine that once succeeded, in the order of docs/security.md, and two that take much of everything."""

from tests.control_plane.attacks import (
    amplification,
    edited_pods,
    fat_templates,
    forged_bindings,
    forged_outputs,
    long_names,
    longest_pods,
    permission_memory,
    quadratic,
    remap_shell,
    unfinished,
)
from tests.control_plane.attacks.replay import Attack

MEMORY_MIB = 200.0
CHART_MIB = 512 * 0.8
"""The limit of the chart (``resources``), less a fifth."""
ATTACKS = (
    Attack(1, "a small pod, a large patch", amplification.run, MEMORY_MIB),
    Attack(2, "long parts against each other", quadratic.run),
    Attack(3, "a permission from memory", permission_memory.run),
    Attack(4, "requests without end", unfinished.run, MEMORY_MIB),
    Attack(5, "forged Bindings", forged_bindings.run),
    Attack(6, "a shell in the remap container", remap_shell.run),
    Attack(7, "forged outputs", forged_outputs.run),
    Attack(8, "edits of running pods", edited_pods.run),
    Attack(9, "names that are none", long_names.run),
    Attack(10, "templates as long as may be", fat_templates.run, CHART_MIB),
    Attack(11, "the longest pods", longest_pods.run, CHART_MIB),
)
