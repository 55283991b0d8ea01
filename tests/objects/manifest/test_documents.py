"""What is said of YAML that cannot be read."""

import pytest

from webhook.objects.manifest.manifest import Manifest
from webhook.objects.manifest.yaml_parser import parse_yaml
from webhook.words.errors import ManifestError


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: secret\na: other\n", r'^it line 2: expected YAML: found duplicate key "a"$'),
        ('"\\u202e": 1\n"\\u202e": 2\n', r'^it line 2: expected YAML: found duplicate key "\\u202e"$'),
        (
            f"{'a' * 900}: 1\n{'a' * 900}: 2\n",
            r'^it line 2: expected YAML: found duplicate key "a{139}\.\.\. \(922 characters\)$',
        ),
        ("a: \x07", r"^it line 1: expected YAML: found the control character U\+0007\. [ -~]+$"),
        ("a: [\n", r"^it line 2: expected YAML: [ -~]+$"),
    ],
)
def test_a_message_has_neither_values_nor_control_characters_and_an_end(text: str, said: str) -> None:
    with pytest.raises(ManifestError, match=said):
        parse_yaml(text, "it")
    with pytest.raises(ManifestError, match=r"^it.*: expected YAML: "):
        Manifest(text, "it")
