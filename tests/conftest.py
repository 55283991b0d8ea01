"""For all tests: how much hypothesis looks at (more with ``--hypothesis-profile=explore``), and programs from Go."""

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.programs.left_out", "tests.chart.helm", "tests.ports"]

SLOW_MACHINES = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "house", deadline=None, max_examples=150, derandomize=True, database=None, suppress_health_check=SLOW_MACHINES
)
settings.register_profile("explore", deadline=None, max_examples=4000, suppress_health_check=SLOW_MACHINES)
settings.load_profile("house")
