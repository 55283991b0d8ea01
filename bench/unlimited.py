"""The webhook without a limit on its reads of pods, because the benchmark sends Bindings faster than any scheduler."""

from webhook.cluster.token_bucket import Rate
from webhook.entry import main
from webhook.programs.server import rate_limits

if __name__ == "__main__":
    rate_limits.EACH_NAMESPACE = rate_limits.ALL_NAMESPACES = Rate(burst=10**9, per_second=10**9)
    main()
