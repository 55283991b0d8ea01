"""Pod creation: (pod, namespace, policy, cluster facts) to an outcome. No I/O, no logging, no clock."""
