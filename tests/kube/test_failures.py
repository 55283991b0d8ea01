"""What a failed request means: come back later, do not come back, or look again."""

import json
from pathlib import Path

import pytest
from kubernetes.client import ApiException

from webhook.kube.client import connect, failure
from webhook.kube.errors import ApiError, ApiRefused, ApiServerAway, Conflict, NotFound
from webhook.model.errors import ConfigError, ManifestError


def answer(code: int | None, *, reason: str = "Reason", message: str = "", retry_after: str = "") -> ApiException:
    error = ApiException(status=code, reason=reason, body=json.dumps({"message": message}) if message else "")
    error.headers = {"Retry-After": retry_after} if retry_after else None
    return error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (0, ApiServerAway),
        (None, ApiServerAway),
        (401, ApiServerAway),
        (408, ApiServerAway),
        (429, ApiServerAway),
        (500, ApiServerAway),
        (503, ApiServerAway),
        (504, ApiServerAway),
        (404, NotFound),
        (409, Conflict),
        (400, ApiRefused),
        (403, ApiRefused),
        (413, ApiRefused),
        (422, ApiRefused),
    ],
)
def test_a_code_says_whether_to_come_back(code: int | None, kind: type[ApiError]) -> None:
    assert type(failure("get node a", answer(code))) is kind


def test_the_text_has_the_words_of_the_api_server() -> None:
    found = failure("patch node a", answer(403, message='nodes "a" is forbidden: User "x" cannot patch resource'))
    assert str(found) == 'patch node a: nodes "a" is forbidden: User "x" cannot patch resource (403)'


@pytest.mark.parametrize("body", ["", "<html>", "[]", "null", '{"message": null}'])
def test_an_answer_that_is_no_status_is_told_in_the_words_of_http(body: str) -> None:
    error = ApiException(status=502, reason="Bad Gateway", body=body)
    assert str(failure("get node a", error)) == "get node a: Bad Gateway (502)"


def test_the_text_is_one_line() -> None:
    error = ApiException(status=0, reason="SSLError\n[SSL: CERTIFICATE_VERIFY_FAILED]")
    assert str(failure("get node a", error)) == "get node a: SSLError [SSL: CERTIFICATE_VERIFY_FAILED]"


@pytest.mark.parametrize(("header", "seconds"), [("", 0.0), ("7", 7.0), ("soon", 0.0), ("-3", 0.0)])
def test_the_wait_that_the_api_server_asks_for_is_kept(header: str, seconds: float) -> None:
    found = failure("get node a", answer(429, retry_after=header))
    assert isinstance(found, ApiServerAway)
    assert found.retry_after == seconds


def test_outside_of_a_cluster_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match=r"expected to run as a pod .* Outside of a cluster give --kubeconfig FILE"):
        connect(None, user_agent="test")


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"kubeconfig: cannot be read: No such file or directory"):
        connect(tmp_path / "kubeconfig", user_agent="test")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a: b",
        "- 1",
        "just words",
        "apiVersion: v1\nkind: Config\ncurrent-context: x\ncontexts: []\nclusters: []\nusers: []\n",
        "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c, cluster: 7}]\n",
    ],
)
def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"{path}: expected a kubeconfig: "):
        connect(path, user_agent="test")


def test_a_kubeconfig_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("a: b\n}")
    with pytest.raises(ManifestError, match=rf"{path} line 2: expected YAML"):
        connect(path, user_agent="test")
