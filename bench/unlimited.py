"""The webhook without a bound on its reads of pods: the benchmark sends Bindings faster than any scheduler."""

from webhook.cluster.bucket import Rate
from webhook.entry import main
from webhook.programs.server import limited

if __name__ == "__main__":
    limited.EACH_NAMESPACE = limited.ALL_NAMESPACES = Rate(burst=10**9, per_second=10**9)
    main()
