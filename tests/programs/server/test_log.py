"""What the server logs: lines that a log shipper can read, and no value of a user's variable in any of them."""

import json
import logging
import os
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.pods import Manifest, container, pod
from tests.programs.server.asgi import application, binding_review, post, review
from tests.programs.server.test_bindings import KnownCluster, KnownPods, injected, to_node
from tests.programs.server.test_reviews import KNOWN
from webhook.cluster.state import State
from webhook.programs.log import TRACEBACK_LIMIT, Log, take_over_logging

AT = datetime(2026, 11, 21, 23, 30, 48, 123456, tzinfo=UTC)
MARK = "s3cret"
"""What no line may hold."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def log(path: Path) -> Iterator[Log]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    yield Log(descriptor, now=lambda: AT, node="n1")
    os.close(descriptor)


def lines(path: Path) -> list[Manifest]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_a_line_has_time_level_and_message_first(log: Log, path: Path) -> None:
    log.say("warning", "certificate", reason="the Secret is gone", attempts=0, remedy="", names=[])
    assert path.read_bytes() == (
        b'{"time":"2026-11-21T23:30:48.123456Z","level":"warning","message":"certificate","node":"n1",'
        b'"reason":"the Secret is gone","attempts":0}\n'
    )


def test_of_a_long_traceback_the_end_is_written(log: Log, path: Path) -> None:
    log.say("error", "bug", traceback=f"{'x' * TRACEBACK_LIMIT}\nValueError: a\x1b")
    (line,) = lines(path)
    assert line["error"].endswith("x\nValueError: a\\x1b")
    assert len(line["error"]) == TRACEBACK_LIMIT


def test_a_reader_that_is_gone_stops_nothing() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    Log(writer).say("info", "started")
    os.close(writer)


@pytest.fixture
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    before, level = root.handlers, root.level
    yield
    logging.captureWarnings(capture=False)
    root.handlers = before
    root.setLevel(level)


@pytest.mark.usefixtures("_restored_logging")
def test_what_libraries_log_and_warn_of_becomes_lines(log: Log, path: Path) -> None:
    take_over_logging(log)
    logger = logging.getLogger("uvicorn.error")
    logger.info("not worth a line")
    logger.warning("a %s", "warning")
    try:
        raise ZeroDivisionError("odd")
    except ZeroDivisionError:
        logger.exception("oh")
    logger.error("%d", "not a number")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    warned, failed, deprecated = lines(path)
    assert warned["message"] == "library"
    assert (warned["level"], warned["logger"], warned["text"]) == ("warning", "uvicorn.error", "a warning")
    assert (failed["level"], failed["text"]) == ("error", "oh")
    assert failed["error"].endswith("ZeroDivisionError: odd")
    assert deprecated["logger"] == "py.warnings"
    assert "DeprecationWarning: old" in deprecated["text"]


secrets = st.text(max_size=20).map(lambda text: f"{text}{MARK}{text}")
names = st.one_of(
    st.sampled_from(
        ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "NCCL_P2P_LEVEL", "NCCL_TOPO_FILE", "CUDA_DISABLE_CONTROL"]
    ),
    st.from_regex(r"[A-Z_]{1,8}", fullmatch=True),
)
entries = st.one_of(
    st.builds(lambda name, value: {"name": name, "value": value}, names, secrets),
    st.builds(lambda name, value: {"name": name, "value": [value]}, names, secrets),
    st.builds(lambda name, value: {"name": name, "value": {"nested": value}}, names, secrets),
)
annotations = st.dictionaries(
    st.one_of(
        names.map(lambda name: f"gpu.topology/env.{name}"),
        st.sampled_from(["gpu.topology/env.", "gpu.topology/env.1BAD", "gpu.topology/env.a-b"]),
    ),
    secrets,
    max_size=3,
)
choices = st.fixed_dictionaries(
    {},
    optional={
        "gpu.topology/profile": st.sampled_from(["exclusive", "pod-peers", "node-peers", "observe", "odd"]),
        "gpu.topology/nvls": st.sampled_from(["on", "odd"]),
        "gpu.topology/containers": st.sampled_from(["train", "nobody"]),
    },
)


def logged(*requests: tuple[str, bytes], state: State = KNOWN, live: Any = None) -> bytes:
    with TemporaryFile() as file:
        app = application(state, file, KnownPods(live))
        for path, body in requests:
            post(app, body, path=path)
        file.seek(0)
        written = file.read()
    assert written.count(b"\n") == len(requests)
    return written


@given(env=st.lists(entries, max_size=3), values=annotations, choice=choices)
def test_no_value_of_a_variable_is_logged_when_a_pod_is_created(
    env: list[Manifest], values: dict[str, str], choice: dict[str, str]
) -> None:
    created = pod(container(env=env), annotations={**values, **choice})
    body = review(created)
    for text in (logged(("/mutate/pods", body)), logged(("/mutate/pods", body[: len(body) // 2]))):
        assert MARK.encode() not in text


@given(env=st.lists(entries, max_size=3), values=annotations, choice=choices)
def test_no_value_of_a_variable_is_logged_when_a_pod_is_bound(
    env: list[Manifest], values: dict[str, str], choice: dict[str, str]
) -> None:
    live = injected(0, 1)
    live["metadata"]["annotations"] |= {**values, **choice}
    live["spec"]["containers"][0]["env"] += env
    text = logged(("/mutate/bindings", binding_review(to_node())), state=KnownCluster(), live=live)
    assert MARK.encode() not in text
