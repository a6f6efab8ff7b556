"""Redirects: every address on the way is checked anew, every new host asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


async def test_redirects_are_followed(world: Any, site: Any) -> None:
    """The answer at the end of the way is given, with the address it came from; the host is not asked for again."""
    site.redirect("/a", "b?x=1")
    site.redirect("/b?x=1", site.url("/c"), 308)
    site.text("/c", "here")
    output = (await world.fetch(site.url("/a"))).output
    assert output["content"] == "here"
    assert output["url"] == site.url("/a")
    assert output["final_url"] == site.url("/c")
    assert world.asked == []


async def test_redirects_with_other_characters(world: Any, site: Any) -> None:
    """A location in plain UTF-8, which servers send, is followed as it was meant."""
    site.redirect("/a", "/Bücher".encode().decode("latin-1"))
    site.text("/B%C3%BCcher", "read")
    assert (await world.fetch(site.url("/a"))).output["content"] == "read"


async def test_another_host_is_asked_for(world: Any, site: Any) -> None:
    """The session is asked before a redirect leads to another host, with that host, once."""
    site.redirect("/a", site.url("/b", "other.example"))
    site.redirect("/b", site.url("/c", "other.example"))
    site.text("/c", "there")
    given = {"url": site.url("/a"), "offset": 0}
    result = await world.tool().execute(given)
    assert result.output["content"] == "there"
    [(action, details)] = world.asked
    assert action == "network.fetch"
    assert details["host"] == "other.example"
    assert details["url"] == site.url("/b", "other.example")
    assert details["tool_name"] == "web_fetch"
    assert details["tool_input"] == given


@pytest.mark.parametrize("verdict", ["deny", None, ("deny", "not there"), "ask", "nonsense"])
async def test_a_host_that_is_not_granted_is_not_asked(world: Any, site: Any, verdict: Any) -> None:
    """Without a clear yes nothing is sent to the other host, and the result says why."""
    world.verdict = verdict
    site.redirect("/a", site.url("/b", "other.example"))
    result = await world.fetch(site.url("/a"))
    assert result.error["code"] == "denied"
    assert "other.example" in result.output
    assert site.asked == ["/a"]
    assert "other.example" not in world.resolved


async def test_a_failing_question_is_a_no(world: Any, site: Any) -> None:
    """A policy system that breaks lets nothing through."""

    async def broken(action: str, details: Any) -> Any:
        raise RuntimeError("gone")

    world.coordinator = _Around(world.coordinator, authorize=broken)
    site.redirect("/a", site.url("/b", "other.example"))
    assert (await world.fetch(site.url("/a"))).error["code"] == "denied"


async def test_without_policies_the_config_decides(world: Any, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without policies, redirects are followed within the config's lists; on ours such a session denies."""
    world.coordinator = _Around(world.coordinator, authorize=None)
    site.redirect("/a", site.url("/b", "other.example"))
    site.text("/b", "there")
    assert (await world.fetch(site.url("/a"))).error["code"] == "denied"
    monkeypatch.setattr("amplifier_kit.guard.authorization.kernel_has_policies", lambda: False)
    assert (await world.fetch(site.url("/a"))).output["content"] == "there"
    blocked = await world.fetch(site.url("/a"), {"blocked_domains": ["other.example"]})
    assert blocked.error["code"] == "blocked_domain"


class _Around:
    def __init__(self, inner: Any, **replaced: Any) -> None:
        self._inner = inner
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@pytest.mark.parametrize(
    "location",
    [
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.2]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0.0.0.0/",
        "http://inside.example/",
    ],
)
async def test_redirects_into_private_networks_are_refused(world: Any, site: Any, location: str) -> None:
    """A public server cannot send the tool to a private address, by number or by name."""
    world.names["inside.example"] = [["10.0.0.7"]]
    site.redirect("/a", location)
    result = await world.fetch(site.url("/a"))
    assert result.error["code"] == "address_refused"
    assert site.asked == ["/a"]


@pytest.mark.parametrize(
    "location", ["http://2130706433/", "http://0x7f.1/", "//127.1/", "http://u:p@site.example/", "file:///etc/passwd"]
)
async def test_redirects_that_can_be_misread_are_refused(world: Any, site: Any, location: str) -> None:
    """A location with several readings leads nowhere."""
    site.redirect("/a", location)
    assert (await world.fetch(site.url("/a"))).error["code"] == "invalid_url"


async def test_no_way_from_encrypted_to_open(world: Any, site: Any, secure_site: Any, authority: Any) -> None:
    """A redirect from https to http is refused; one from http to https is followed."""
    world.environ["SSL_CERT_FILE"] = str(authority.file)
    secure_site.redirect("/a", site.url("/b"))
    site.redirect("/b", secure_site.url("/c"))
    secure_site.text("/c", "safe")
    assert (await world.fetch(secure_site.url("/a"))).error["code"] == "insecure_redirect"
    assert site.asked == []
    assert (await world.fetch(site.url("/b"))).output["content"] == "safe"


@pytest.mark.parametrize(("most", "is_followed"), [(0, False), (2, False), (3, True)])
async def test_the_number_of_redirects(world: Any, site: Any, most: int, is_followed: bool) -> None:
    """As many redirects are followed as the config says."""
    for number in range(3):
        site.redirect(f"/{number}", f"/{number + 1}")
    site.text("/3", "end")
    result = await world.fetch(site.url("/0"), {"max_redirects": most})
    assert result.success == is_followed
    assert is_followed or result.error["code"] == "too_many_redirects"


async def test_a_circle_ends(world: Any, site: Any) -> None:
    """A server that leads in a circle is left after the most redirects."""
    site.redirect("/a", "/a")
    assert (await world.fetch(site.url("/a"))).error["code"] == "too_many_redirects"
    assert len(site.asked) == 6


async def test_a_rebound_name_is_refused(world: Any, make_site: Callable[..., Any]) -> None:
    """A name that leads to this machine the second time it is resolved is refused on a redirect to itself."""
    site = make_site("127.0.0.2")
    secret = make_site("127.0.0.1", site.port)
    secret.text("/secret", "password")
    world.internet = {"127.0.0.2"}
    world.names["rebinding.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    site.answers["/a"] = lambda handler: _and_hang_up(handler, "/secret")
    result = await world.fetch(site.url("/a", "rebinding.example"))
    assert result.error["code"] == "address_refused"
    assert secret.asked == []


async def test_the_judged_address_is_the_connected_one(world: Any, make_site: Callable[..., Any]) -> None:
    """What a resolver says after the judgement is never asked for: the first answer is used, and used alone."""
    site = make_site("127.0.0.2")
    secret = make_site("127.0.0.1", site.port)
    site.text("/secret", "public")
    secret.text("/secret", "password")
    world.internet = {"127.0.0.2"}
    world.names["rebinding.example"] = [["127.0.0.2"], ["127.0.0.1"]]
    assert (await world.fetch(site.url("/secret", "rebinding.example"))).output["content"] == "public"
    assert world.resolved == ["rebinding.example"]
    assert secret.asked == []


def _and_hang_up(handler: Any, location: str) -> None:
    handler.send_response(302)
    for name, value in (("Location", location), ("Content-Length", "0"), ("Connection", "close")):
        handler.send_header(name, value)
    handler.end_headers()
    handler.close_connection = True
