"""URLs are read one way, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.network import Endpoint, MalformedError, Target, parse_authority, parse_host, parse_url

CORPUS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "corpus" / "urls.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("url", CORPUS["refused"])
def test_what_can_be_misread_is_refused(url: str) -> None:
    """No URL of the corpus that programs read differently gets as far as a resolver."""
    with pytest.raises(MalformedError):
        parse_url(url)


@pytest.mark.parametrize("case", CORPUS["read"], ids=lambda case: case["url"])
def test_what_is_clear_is_read(case: dict[str, str]) -> None:
    """A URL with one reading has the host of that reading."""
    assert parse_url(case["url"]).host == case["host"]


@given(st.text(max_size=60))
def test_nothing_else_is_ever_raised(text: str) -> None:
    """Whatever is put behind the scheme is read or refused."""
    try:
        target = parse_url(f"http://{text}")
    except MalformedError:
        return
    assert str(target).isascii()


@given(st.text(alphabet="aZ0.1x:@/\\?#[]%-_ü１ \t", max_size=30))
def test_what_was_read_is_written_one_way(text: str) -> None:
    """The URL that comes out means the same to the standard library and to us, read again and again."""
    try:
        target = parse_url(f"http://{text}")
    except MalformedError:
        return
    assert parse_url(str(target)) == target
    parts = urlsplit(str(target))
    assert parts.hostname == target.host
    assert (parts.port or 80) == target.endpoint.port
    assert parts.username is None


def test_the_parts_of_a_target() -> None:
    """Path and query are kept and escaped, the fragment is not sent, the scheme's port is not written."""
    target = parse_url("https://Bücher.example:443/Käse?q=ü b#teil".replace(" ", "%20"))
    assert target == Target("https", Endpoint("xn--bcher-kva.example", 443), "/K%C3%A4se?q=%C3%BC%20b")
    assert str(target) == "https://xn--bcher-kva.example/K%C3%A4se?q=%C3%BC%20b"
    assert str(parse_url("http://[::1]:8080?x")) == "http://[::1]:8080/?x"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/there", "https://a.example/there"),
        ("there", "https://a.example/x/there"),
        ("?q", "https://a.example/x/y?q"),
        ("//b.example/z", "https://b.example/z"),
        ("http://b.example", "http://b.example/"),
        (" /a b ", "https://a.example/a%20b"),
        ("../../up", "https://a.example/up"),
    ],
)
def test_redirects_are_read_from_where_they_stand(location: str, expected: str) -> None:
    """A location is joined with the URL that answered with it."""
    assert str(parse_url("https://a.example/x/y").joined(location)) == expected


@pytest.mark.parametrize(
    "location", ["//127.1/", "/\\127.0.0.1/", "https://u@b.example/", "file:///x", "/a\nb", "//[::1/", "//a b.example/"]
)
def test_redirects_that_can_be_misread_are_refused(location: str) -> None:
    """A location is read as strictly as a URL."""
    with pytest.raises(MalformedError):
        parse_url("https://a.example/x/y").joined(location)


def test_long_urls_are_refused() -> None:
    """A URL is never longer than servers take."""
    with pytest.raises(MalformedError, match="longer"):
        parse_url("http://a.example/" + "x" * 8192)


def test_a_refused_address_says_what_it_would_be() -> None:
    """The message for an address in an unusual form names the address that some programs read in it."""
    with pytest.raises(MalformedError, match=r"an unusual form of the address 127\.0\.0\.1: write 127\.0\.0\.1"):
        parse_host("0x7f.1")


def test_authorities() -> None:
    """An authority is a host with a port, or with the port that is implied."""
    assert parse_authority("a.example:8080") == Endpoint("a.example", 8080)
    assert parse_authority("[::1]", 80) == Endpoint("::1", 80)
    assert str(parse_authority("[::1]:81")) == "[::1]:81"
    with pytest.raises(MalformedError, match="no port"):
        parse_authority("a.example")
