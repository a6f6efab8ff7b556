"""The lists of hosts: a host and its subdomains, and the published pieces."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_kit.guard.network import parse_url
from amplifier_module_tool_web.call import Failure
from amplifier_module_tool_web.domains import Domains


def is_let(url: str, **lists: list[str]) -> bool:
    """Tell whether the lists let a URL through."""
    try:
        Domains(**lists).check(parse_url(url).endpoint)
    except Failure:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "url", "is_meant"),
    [
        ("a.example", "http://a.example/", True),
        ("a.example", "http://b.a.example/", True),
        ("a.example", "http://ba.example/", False),
        ("a.example", "http://a.example.evil.example/", False),
        ("a.example", "http://evil.example/a.example", False),
        ("*.a.example", "http://b.a.example/", True),
        ("*.a.example", "http://a.example/", False),
        (".a.example", "http://b.a.example/", True),
        ("a.example:8080", "http://a.example:8080/", True),
        ("a.example:8080", "http://a.example/", False),
        ("bücher.example", "http://xn--bcher-kva.example/", True),
        ("93.184.", "http://93.184.216.34/", True),
        ("93.184.", "http://[::ffff:93.184.216.34]/", True),
        ("93.184.", "http://93.184.example/", False),
        ("93.184.216.34", "http://93.184.216.34/", True),
        ("2606:2800::1", "http://[2606:2800::1]/", True),
        ("[2606:2800::1]:8080", "http://[2606:2800::1]:8080/", True),
        ("localhost", "http://localhost/", True),
        ("*", "http://a.example/", True),
    ],
)
def test_what_an_entry_means(entry: str, url: str, is_meant: bool) -> None:
    """An entry of either list means the same hosts."""
    assert is_let(url, allowed=[entry]) == is_meant
    assert is_let(url, blocked=[entry]) != is_meant


@pytest.mark.parametrize(
    ("entry", "url"),
    [("face", "http://www.facebook.example/"), ("ads-", "http://ads-1.example/"), (":8080", "http://a.example:8080/")],
)
def test_pieces_block(entry: str, url: str) -> None:
    """The published pieces of names block what contains them."""
    assert not is_let(url, blocked=[entry])


def test_pieces_do_not_allow() -> None:
    """A piece of a name allows the host of that name; what is no host's name is reported."""
    assert not is_let("http://face.evil.example/", allowed=["face"])
    assert is_let("http://www.face/", allowed=["face"])
    with pytest.raises(ValueError, match="allowed_domains"):
        Domains(allowed=["ads-"])


def test_blocked_beats_allowed() -> None:
    """What is on both lists is blocked."""
    assert not is_let("http://b.a.example/", allowed=["a.example"], blocked=["b.a.example"])
    assert is_let("http://a.example/", allowed=["a.example"], blocked=["b.a.example"])


@pytest.mark.parametrize("entry", ["https://a.example", "a.example/path", "a b", "a,b"])
@pytest.mark.parametrize("key", ["allowed", "blocked"])
def test_entries_that_would_mean_nothing(key: str, entry: str) -> None:
    """An entry that could never match is reported when the tool is mounted, so that nobody relies on it."""
    with pytest.raises(ValueError, match=f"{key}_domains"):
        Domains(**{key: [entry]})


async def test_a_blocked_address_behind_a_name(world: Any, site: Any) -> None:
    """The start of an address also blocks names that lead there."""
    site.text("/x", "x")
    assert (await world.fetch(site.url("/x"))).success
    refused = await world.fetch(site.url("/x"), {"blocked_domains": ["127."]})
    assert refused.error["code"] == "address_refused"


@pytest.mark.parametrize("entries", [{"blocked_domains": ["site.example"]}, {"allowed_domains": ["other.example"]}])
async def test_blocked_hosts_are_not_even_resolved(world: Any, site: Any, entries: dict[str, list[str]]) -> None:
    """A host that the lists refuse is not looked up."""
    result = await world.fetch(site.url("/x"), entries)
    assert result.error["code"] == "blocked_domain"
    assert world.resolved == []


@pytest.mark.parametrize("published", ["localhost", "127.0.0.1", "0.0.0.0", "192.168.", "10.", "172.16."])
def test_the_published_defaults_can_be_written_down(published: str) -> None:
    """A bundle that lists the published defaults itself keeps working."""
    host = published + "1.1.1"[: 2 * (3 - published.count(".")) + 1] if published.endswith(".") else published
    assert not is_let(f"http://{host}/", blocked=[published])
