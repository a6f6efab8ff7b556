"""The proxy is the one that the environment names."""

from __future__ import annotations

import pytest

from amplifier_kit.guard.network import parse_url, proxy_for

PROXY = "http://proxy.example:3128"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"https_proxy": PROXY}, PROXY),
        ({"HTTPS_PROXY": PROXY}, PROXY),
        ({"https_proxy": PROXY, "HTTPS_PROXY": "http://other.example"}, PROXY),
        ({"ALL_PROXY": PROXY}, PROXY),
        ({"http_proxy": PROXY}, None),
        ({"https_proxy": "proxy.example:3128"}, PROXY),
        ({"https_proxy": ""}, None),
    ],
)
def test_which_variable_counts(environ: dict[str, str], expected: str | None) -> None:
    """The scheme's own variable is read, in small letters first, then the one for all."""
    assert proxy_for(parse_url("https://a.example/"), environ) == expected


@pytest.mark.parametrize(
    ("exempt", "url", "is_direct"),
    [
        ("a.example", "http://a.example/", True),
        ("a.example", "http://b.a.example/", True),
        (".a.example", "http://b.a.example/", True),
        ("*.a.example", "http://b.a.example/", True),
        ("a.example", "http://ba.example/", False),
        ("A.Example", "http://a.example/", True),
        ("a.example:8080", "http://a.example/", False),
        ("a.example:8080", "http://a.example:8080/", True),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("::1", "http://[::1]/", True),
        ("[::1]", "http://[::1]/", True),
        ("*", "http://a.example/", True),
        ("x, a.example", "http://a.example/", True),
        ("", "http://a.example/", False),
        (",,", "http://a.example/", False),
        (".", "http://a.example/", False),
    ],
)
def test_who_is_exempt(exempt: str, url: str, is_direct: bool) -> None:
    """What `no_proxy` covers is reached directly."""
    assert (proxy_for(parse_url(url), {"all_proxy": PROXY, "no_proxy": exempt}) is None) == is_direct
