"""The file from which NCCL takes variables that its process does not have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.decisions.configuration import admit_policy, parse_config
from webhook.programs.remap.nccl_settings import format_nccl_settings
from webhook.words.errors import ConfigError, FormatError


def read_as_nccl(text: str) -> dict[str, str]:
    """What NCCL makes of a file: src/misc/param.cc, setEnvFile, of 2.30.7."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.removesuffix("\r").partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name[:1023], value[:1023])
    return found


def test_a_line_is_a_name_and_a_value() -> None:
    text = format_nccl_settings((("NCCL_PROTO", "LL,LL128"), ("NCCL_IB_HCA", "=mlx5_0:1")))
    assert text == "NCCL_PROTO=LL,LL128\nNCCL_IB_HCA==mlx5_0:1\n"


@given(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,60}", fullmatch=True), st.text(max_size=40))
def test_nccl_reads_what_the_configuration_says(name: str, value: str) -> None:
    try:
        tables = admit_policy(parse_config({"nccl": {"pcie": {name: value}}}), version="0.1.0").nccl_tables
    except ConfigError:
        return
    values = tuple((one, by_class["pcie"]) for one, by_class in tables.partial.items())
    assert read_as_nccl(format_nccl_settings(values)) == dict(values)


@pytest.mark.parametrize(("name", "value"), [("A B", "1"), ("#A", "1"), ("A", ""), ("A", "1\n2"), ("A", "x" * 1024)])
def test_what_nccl_would_read_differently_is_refused(name: str, value: str) -> None:
    with pytest.raises(FormatError, match=r"^NCCL's configuration file: "):
        format_nccl_settings(((name, value),))
