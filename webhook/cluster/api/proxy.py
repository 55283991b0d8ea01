"""The HTTP proxy that the environment names for an address."""

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit


def find_proxy(url: str, environment: Mapping[str, str]) -> str | None:
    """Find the proxy of ``https_proxy`` or ``http_proxy``, or else ``all_proxy``, unless ``no_proxy`` exempts the host.

    Names in small letters count before capitals. Entries of ``no_proxy`` are names, which include their subdomains,
    addresses, networks such as ``10.96.0.0/12``, or ``*``: Go's golang.org/x/net/http/httpproxy.
    """
    parts = urlsplit(url)
    exempt = _said(environment, "no_proxy") or ""
    if any(_matches(entry.strip(), parts.hostname or "") for entry in exempt.split(",")):
        return None
    return _said(environment, f"{parts.scheme}_proxy") or _said(environment, "all_proxy") or None


def _said(environment: Mapping[str, str], name: str) -> str | None:
    return environment.get(name, environment.get(name.upper()))


def _matches(entry: str, host: str) -> bool:
    if entry == "*":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        name = entry.lstrip(".").lower()
        return bool(name) and (host == name or host.endswith(f".{name}"))
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False
