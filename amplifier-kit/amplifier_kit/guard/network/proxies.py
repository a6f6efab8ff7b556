"""The proxy that an environment names."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from amplifier_kit.guard.network.urls import Target


def proxy_for(target: Target, environ: Mapping[str, str]) -> str | None:
    """Return the URL of the proxy that the environment names for a request, None for none.

    `http_proxy`, `https_proxy` and `all_proxy` are read in small letters first, then in capitals; `no_proxy` lists
    hosts, domains, addresses and networks that are reached directly, or `*`.
    """
    names = (f"{target.scheme}_proxy", f"{target.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    proxy = next((environ[name] for name in names if environ.get(name)), None)
    exempt = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if proxy is None or any(_covers(item.strip().lower(), target) for item in exempt.split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _covers(item: str, target: Target) -> bool:
    name, _, port = item.rpartition(":") if item.count(":") == 1 else (item, "", "")
    if not name or (port and port != str(target.endpoint.port)):
        return False
    if name == "*":
        return True
    name = name.strip("[]").removeprefix("*")
    try:
        return ipaddress.ip_address(target.host) in ipaddress.ip_network(name, strict=False)
    except ValueError:
        bare = name.strip(".")
        return bool(bare) and (target.host == bare or target.host.endswith(f".{bare}"))
