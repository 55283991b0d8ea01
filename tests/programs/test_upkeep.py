"""Work that never ends begins anew after a bug, beside other work."""

import asyncio
import json
import os
from pathlib import Path
from typing import NoReturn

import pytest

from webhook.programs import upkeep
from webhook.programs.log import Log
from webhook.programs.upkeep import Upkeep


def test_a_bug_is_logged_and_the_work_begins_anew_beside_other_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "RETRY_SECONDS", (0.0, 0.001))
    path = tmp_path / "log"
    begun, enough = list[str](), asyncio.Event()

    async def faulty() -> NoReturn:
        begun.append("faulty")
        if begun.count("faulty") == 3:
            enough.set()
        raise ZeroDivisionError("a bug")

    async def steady() -> None:
        begun.append("steady")
        await asyncio.Event().wait()

    async def test() -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
        both = Upkeep((faulty, steady), Log(descriptor))
        both.open()
        await enough.wait()
        await both.close()
        count = len(begun)
        await asyncio.sleep(0.01)
        assert len(begun) == count
        os.close(descriptor)

    asyncio.run(test())
    assert begun.count("steady") == 1
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line["message"] for line in lines} == {"bug"}
    assert "ZeroDivisionError: a bug" in lines[0]["error"]
