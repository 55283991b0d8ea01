"""The attacks that once succeeded, in the order of docs/security.md."""

from tests.cluster.attacks import (
    amplification,
    edited_pods,
    forged_bindings,
    forged_outputs,
    long_names,
    permission_memory,
    quadratic,
    remap_shell,
    unfinished,
)
from tests.cluster.attacks.replay import Attack

MEMORY_MIB = 200.0
ATTACKS = (
    Attack("a small pod, a large patch", amplification.run, MEMORY_MIB),
    Attack("long parts against each other", quadratic.run),
    Attack("a permission from memory", permission_memory.run),
    Attack("requests without end", unfinished.run, MEMORY_MIB),
    Attack("forged Bindings", forged_bindings.run),
    Attack("a shell in the remap container", remap_shell.run),
    Attack("forged outputs", forged_outputs.run),
    Attack("edits of running pods", edited_pods.run),
    Attack("names that are none", long_names.run),
)
