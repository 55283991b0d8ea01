"""The official client as a way to the API server, without its models: objects are what was sent."""

from collections.abc import Sequence

from kubernetes.client import ApiClient, ApiException, Configuration
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from webhook.kube.exchange import ANSWER_SECONDS, CONNECT_SECONDS, Reply


class ClientExchange:
    """:class:`certs.api.Exchange` of the official client.

    Args:
        configuration: Of the official client, loaded.
        user_agent: How we name ourselves.
    """

    def __init__(self, configuration: Configuration, *, user_agent: str) -> None:
        configuration.retries = False  # when to try again is the caller's business
        self._client = ApiClient(configuration)
        self._client.user_agent = user_agent

    def send(self, method: str, path: str, query: Sequence[tuple[str, str]], body: object, content_type: str) -> Reply:
        """Make a request; :meth:`certs.api.Exchange.send`."""
        headers = {"Accept": "application/json"} | ({"Content-Type": content_type} if content_type else {})
        try:
            parameters = self._client.param_serialize(
                method, path, query_params=list(query), header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            answer = self._client.call_api(*parameters, _request_timeout=(CONNECT_SECONDS, ANSWER_SECONDS))
            return answer.status, answer.headers, answer.read()  # type: ignore[no-untyped-call]  # it has none there
        except (HTTPError, ConfigException, ApiException) as error:
            raise ConnectionError(str(error)) from None

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()  # type: ignore[no-untyped-call]  # as above
