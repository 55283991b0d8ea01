"""What is wrong with a document, in words that need no knowledge of Python."""

import msgspec
import pytest

from webhook.objects.manifest.pods import decode_pod
from webhook.words.errors import ManifestError
from webhook.words.shape import shape_problem


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (b'{"metadata": 5}', "metadata: expected an object, found a whole number"),
        (b'{"metadata": {"labels": {"a": true}}}', "metadata.labels[...]: expected a text, found true or false"),
        (b'{"spec": {"containers": 5}}', "spec.containers: expected a list, found a whole number"),
        (b'{"spec": {"containers": [{}]}}', "spec.containers[0]: expected the member name, found none"),
        (b'{"spec": {"containers": [null]}}', "spec.containers[0]: expected an object, found null"),
        (b"[]", "expected an object, found a list"),
        (b"{", "expected JSON, found something else: Input data was truncated"),
    ],
)
def test_a_pod_that_is_none_is_told_in_words(document: bytes, problem: str) -> None:
    with pytest.raises(ManifestError, match=r"^pod x: ") as caught:
        decode_pod(document, "pod x")
    assert str(caught.value) == f"pod x: {problem}"


@pytest.mark.parametrize("kind", [int, float, str, bool, list[int], dict[str, int], int | None, int | str])
def test_no_type_is_named_as_in_python(kind: type) -> None:
    problems = [problem(document, kind) for document in (b"1.5", b'"x"', b"true", b"[true]", b'{"a": []}', b"null")]
    assert any(problems)
    assert not any("`" in text for text in problems)


def problem(document: bytes, kind: type) -> str:
    try:
        msgspec.json.decode(document, type=kind)
    except msgspec.ValidationError as error:
        return shape_problem(error)
    return ""
