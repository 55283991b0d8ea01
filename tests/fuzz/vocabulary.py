"""What inputs are made of: the words that the project reads, and values that break programs."""

import json
from collections.abc import Iterator
from typing import Any

from tests.pods import SHARED_MEMORY
from webhook.decisions.options import OPTION_NAMES
from webhook.words import names
from webhook.words.choices import Carrier, Colocate, Nvls, OnViolation, P2pLevel, Policy, Profile

DEEP, LONG, ENDLESS, TWICE = "@deep@", "@long@", "@endless@", "@twice@"
RAW = {
    json.dumps(DEEP): "[" * 3000 + "]" * 3000,
    json.dumps(LONG): "9" * 5000,
    json.dumps(ENDLESS): "1e999",
    json.dumps(TWICE): '{"name":"a","name":"b","value":1,"value":"2"}',
}
"""Strings that stand for JSON which cannot be written from values: they are replaced in the finished text."""

CHOICES: tuple[str, ...] = (*Profile, *Policy, *OnViolation, *Nvls, *P2pLevel, *Carrier, *Colocate)

HOSTILE_TEXTS: tuple[str, ...] = (
    *("", " ", "\x00", "\x1b[2J", "\x85", "\u202etxt", "\u2028", "\U000e0001", "\ud800", "é", "\U0001f4a5", "٣"),
    *("a" * 300, "a" * 6000, "A" * 64, "../../etc", f"{SHARED_MEMORY}/../shm", f"{SHARED_MEMORY}/"),
    *("/run/gpu-topology", "~0~1/", "-", "'", '"]}', "$(NVIDIA_VISIBLE_DEVICES)", "$$", "%s{0}", "-1", "0"),
    *("1e400", "nan", "9" * 30, "9" * 5000, "1_000", "true", "false", "null", "all", "none", "void", "0,1", ";"),
    *(":", ",", ";" * 200, ":;" * 100, "GPU-", "GPU-1", "GPU-1[1-0]", "GPU-1,NVIDIA,1,100:;", "{}", "[]", "[[[["),
    "metadata.annotations['gpu.topology/visible-uuids']",
    "metadata.annotations['gpu.topology/cuda-visible-devices.0']",
    *("metadata.annotations['hami.io/vgpu-devices-allocated']", "0.1.0 exclusive", "9.9.9 node-peers", DEEP),
    *(LONG, ENDLESS, TWICE),
)

HOSTILE_NUMBERS: tuple[int | float, ...] = (
    *(0, -1, 1, 2, 8, 64, 255, 256, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, 10**40, 0.5, -0.0, 1e308),
)

HOSTILE_VALUES: tuple[Any, ...] = (None, True, False, [], {}, [None], [[]], {"": ""}, *HOSTILE_NUMBERS, *HOSTILE_TEXTS)


def our_keys() -> Iterator[str]:
    """Every name that the project spells, and every option as an annotation."""
    for value in vars(names).values():
        if isinstance(value, str) and value:
            yield value
    yield from names.OUTPUTS
    for name in (*OPTION_NAMES, "env.A", "env.NCCL_DEBUG", "env.NVIDIA_VISIBLE_DEVICES", "env.", "proflie"):
        yield names.PREFIX + name
    for prefix in names.OUTPUT_PREFIXES:
        yield from (prefix + "0", prefix + "NCCL_ALGO")


WORDS = sorted({*our_keys(), *CHOICES})
"""Texts of our own, for keys and values."""
