"""How much hypothesis looks at: the same examples in each run, and many more with ``--hypothesis-profile=explore``."""

from hypothesis import HealthCheck, settings

SLOW_MACHINES = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "house", deadline=None, max_examples=150, derandomize=True, database=None, suppress_health_check=SLOW_MACHINES
)
settings.register_profile("explore", deadline=None, max_examples=4000, suppress_health_check=SLOW_MACHINES)
settings.load_profile("house")
