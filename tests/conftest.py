"""Settings of all tests: profiles of hypothesis, plugins, the event loop of coroutines, no proxies.

hypothesis draws 30 inputs for each law; ``--hypothesis-profile=long`` draws 300, ``explore`` 4,000 and ``quick`` 5.
"""

import inspect

import pytest
import uvloop
from hypothesis import HealthCheck, settings

pytest_plugins = [
    "tests.go_programs.left_out",
    "tests.chart.helm",
    "tests.ports",
    "tests.figures",
    "tests.insight.page.chromium",
    "tests.marked",
    "tests.workers",
    "tests.compatibility.noting",
    "tests.compatibility.results",
]

SLOW_MACHINES = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "house", deadline=None, max_examples=30, derandomize=True, database=None, suppress_health_check=SLOW_MACHINES
)
settings.register_profile("long", settings.get_profile("house"), max_examples=300)
settings.register_profile("explore", deadline=None, max_examples=4000, suppress_health_check=SLOW_MACHINES)
settings.register_profile("quick", settings.get_profile("house"), max_examples=5)
settings.load_profile("house")


@pytest.fixture
def without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes the proxies of the user from the environment, so that requests on this machine are direct."""
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine on the event loop of the server."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    uvloop.run(
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    )
    return True
