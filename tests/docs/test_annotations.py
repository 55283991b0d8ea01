"""docs/annotations.md has every annotation and label that the code knows, and no other."""

import enum
import re

import msgspec
import pytest

from tests.docs.test_docs import rows, text
from tests.docs.test_operations import PERMISSION_LABELS, codes
from webhook.decisions.options import OPTION_NAMES, Options, parse_option
from webhook.words import names
from webhook.words.choices import Profile

PAGE = text("docs/annotations.md")
NO_KEYS = {names.AGENT_CONTROLLER, names.WEBHOOK_CONTROLLER, names.CERTIFICATES_TYPE}
NO_KEYS |= {names.VERIFY_CONTROLLER, names.PLANNER_CONTROLLER}
NO_KEYS |= {names.PLACED_CONDITION, names.NVLINK_DOWN, names.GPU_LOST}
"""Constants with the prefix that are no annotation and no label: reporters of Events, the type of a Secret, a
condition of pods, and taints of devices."""


def section(heading: str) -> list[list[str]]:
    return rows(PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0])


def keys(cell: str) -> set[str]:
    """The keys of a cell, without the part that differs by container or variable."""
    return {re.sub(r"<.*>$|(?<=/env\.)NAME$", "", key) for key in codes(cell) if key.startswith(names.PREFIX)}


OPTIONS = {key: row for row in section("Options") for key in keys(row[0])}
CHOICES = [
    (field.name, field.type)
    for field in msgspec.structs.fields(Options)
    if isinstance(field.type, type) and issubclass(field.type, enum.StrEnum)
]


def test_the_table_of_options_is_complete() -> None:
    assert OPTIONS.keys() == {names.PREFIX + name for name in (*OPTION_NAMES, names.ENV_PREFIX)}


@pytest.mark.parametrize("name", OPTION_NAMES)
def test_every_value_that_is_named_for_an_option_is_accepted(name: str) -> None:
    _, values, default, _ = OPTIONS[names.PREFIX + name]
    for value in (*codes(values), *codes(default)):
        parse_option(name, value, source="docs/annotations.md")


@pytest.mark.parametrize(("field", "choices"), CHOICES, ids=[field for field, _ in CHOICES])
def test_every_choice_and_the_default_of_an_option_are_named(field: str, choices: type[enum.StrEnum]) -> None:
    _, values, default, _ = OPTIONS[names.PREFIX + field.replace("_", "-")]
    assert codes(values) == list(choices)
    assert codes(default) == [getattr(Options(), field)]


def test_the_table_of_profiles_has_every_profile_that_changes_pods() -> None:
    header = section("Profiles")[0]
    assert [*codes(" ".join(header)), Profile.OBSERVE] == list(Profile)


def test_the_permissions_of_profiles_are_permission_labels() -> None:
    (needed,) = (row[1:] for row in section("Profiles") if row[0].startswith("permissions"))
    assert {names.PREFIX + label for cell in needed for label in codes(cell)} < PERMISSION_LABELS


def test_every_annotation_and_label_of_the_code_has_a_row() -> None:
    constants = {
        value
        for name, value in vars(names).items()
        if name != "PREFIX" and isinstance(value, str) and value.startswith(names.PREFIX)
    }
    documented = {
        key
        for heading in ("Options", "Labels", "What the programs write")
        for row in section(heading)
        for key in keys(row[0])
    }
    assert documented == (constants - NO_KEYS) | OPTIONS.keys()


def test_only_what_the_webhook_alone_writes_is_listed_as_written_by_it() -> None:
    of_pods = PAGE.split("\n| annotation of a pod |")[1].split("\n\n")[0]
    assert {key for row in rows(of_pods) for key in keys(row[0])} == {*names.OUTPUTS, *names.OUTPUT_PREFIXES}
