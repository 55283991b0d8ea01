"""The namespace that a kubeconfig names, whatever stands in the file."""

from pathlib import Path

import pytest
import yaml

from webhook.cluster.api.contexts import Context
from webhook.cluster.api.kubeconfig_files import namespace_of
from webhook.words.errors import ConfigError

LAB = {"name": "lab", "context": {"namespace": "team-a"}}


@pytest.mark.parametrize("odd", [["lab"], {"lab": 1}, 7, None], ids=str)
def test_a_name_that_is_no_text_is_that_of_another_context(tmp_path: Path, odd: object) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({"contexts": [{**LAB, "name": odd}, LAB], "current-context": "lab"}))
    assert namespace_of(Context((path,))) == "team-a"
    with pytest.raises(ConfigError, match=r'there is no context "gone"; the contexts there are: lab'):
        namespace_of(Context((path,), "gone"))


def test_a_current_context_that_is_no_text_is_none(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump({"contexts": [LAB], "current-context": ["lab"]}))
    assert namespace_of(Context((path,))) == "default"
