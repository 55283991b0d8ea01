"""What a pod of the cluster is told, and what is said where something of it is missing."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.certificate import issue
from webhook.cluster.api.proxy import find_proxy
from webhook.cluster.api.service_account import ServiceAccount
from webhook.cluster.api.session import Session
from webhook.words.errors import ConfigError

INSIDE = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("first\n")
    bundle = issue(["127.0.0.1"], now=datetime.now(UTC), lifetime=timedelta(days=1))
    (tmp_path / "ca.crt").write_bytes(bundle.authority)
    return tmp_path


def test_it_names_the_api_server_its_authority_and_the_token(directory: Path) -> None:
    account = ServiceAccount(directory, INSIDE)
    assert account.url == "https://10.96.0.1:443"
    assert len(account.tls().get_ca_certs()) == 1
    assert asyncio.run(account.authorization()) == "Bearer first"
    assert (account.proxy, account.tls_server_name) == (None, None)


def test_an_address_of_ipv6_has_brackets(directory: Path) -> None:
    account = ServiceAccount(directory, {**INSIDE, "KUBERNETES_SERVICE_HOST": "fd00::1"})
    assert account.url == "https://[fd00::1]:443"


def test_each_question_reads_the_token_anew(directory: Path) -> None:
    account = ServiceAccount(directory, INSIDE)
    (directory / "token").write_text("second")
    assert asyncio.run(account.authorization()) == "Bearer second"


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({"HTTPS_PROXY": "http://a:1"}, "http://a:1"),
        ({"https_proxy": "http://b:1", "HTTPS_PROXY": "http://a:1"}, "http://b:1"),
        ({"https_proxy": "", "HTTPS_PROXY": "http://a:1"}, None),
        ({"ALL_PROXY": "http://c:1"}, "http://c:1"),
        ({"HTTP_PROXY": "http://d:1"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "10.96.0.0/12"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "example.com, 10.96.0.1"}, None),
        ({"HTTPS_PROXY": "http://a:1", "no_proxy": "*"}, None),
        ({"HTTPS_PROXY": "http://a:1", "NO_PROXY": "10.97.0.0/16,.0.1,"}, "http://a:1"),
    ],
)
def test_a_proxy_of_the_environment_is_seen(directory: Path, environment: dict[str, str], proxy: str | None) -> None:
    assert ServiceAccount(directory, {**INSIDE, **environment}).proxy == proxy


@pytest.mark.parametrize(
    ("url", "exempt"),
    [
        ("https://api.example.com:6443", "example.com"),
        ("https://api.example.com:6443", ".EXAMPLE.com"),
        ("https://[fd00::1]:6443", "fd00::/8"),
    ],
)
def test_a_name_stands_for_its_subdomains_and_a_network_for_its_addresses(url: str, exempt: str) -> None:
    assert find_proxy(url, {"https_proxy": "http://a:1", "no_proxy": exempt}) is None
    assert find_proxy(url, {"https_proxy": "http://a:1", "no_proxy": "ample.com,fe80::/10"}) == "http://a:1"


def test_a_proxy_that_does_not_speak_http_is_refused(directory: Path) -> None:
    account = ServiceAccount(directory, {**INSIDE, "HTTPS_PROXY": "socks5://a:1"})
    with pytest.raises(ConfigError, match=r"expected an HTTP proxy or none, found one of socks5\. Add its host to NO_"):
        Session(account, user_agent="test", seconds=1.0)


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"])
@pytest.mark.parametrize("how", ["", None])
def test_outside_of_a_cluster_a_kubeconfig_is_asked_for(directory: Path, missing: str, how: str | None) -> None:
    environment = {name: value for name, value in {**INSIDE, missing: how}.items() if value is not None}
    with pytest.raises(ConfigError) as caught:  # noqa: PT011 - the whole text is compared
        ServiceAccount(directory, environment)
    assert str(caught.value) == (
        "expected to run as a pod with a service account: the variables KUBERNETES_SERVICE_HOST and "
        "KUBERNETES_SERVICE_PORT are not set. Outside of a cluster give --kubeconfig FILE"
    )


@pytest.mark.parametrize("name", ["token", "ca.crt"])
def test_a_file_that_is_missing_or_empty_is_named(directory: Path, name: str) -> None:
    path = re.escape(str(directory / name))
    (directory / name).write_text("")
    with pytest.raises(ConfigError, match=rf"^expected to run as a pod with a service account: {path} is empty\. Out"):
        ServiceAccount(directory, INSIDE)
    (directory / name).unlink()
    with pytest.raises(ConfigError, match=rf"service account: {path}: No such file or directory\. Outside of a clust"):
        ServiceAccount(directory, INSIDE)


def test_a_token_that_is_no_text_is_named(directory: Path) -> None:
    (directory / "token").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=rf"{re.escape(str(directory / 'token'))}: expected a token of one line"):
        ServiceAccount(directory, INSIDE)
