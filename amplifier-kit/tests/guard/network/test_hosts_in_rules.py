"""Requests and rules mean the same host by every text: one parser serves both."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from amplifier_kit.guard.network import (
    MalformedError,
    canonical_host,
    canonical_url_host,
    is_address,
    meant,
    parse_authority,
    parse_url,
)
from amplifier_kit.guard.policy.rules import Rule, RuleError

LABELS = st.one_of(
    st.sampled_from([
        *("example", "EXAMPLE", "com", "a_b", "xn--mnchen-3ya", "-", "a-", "a", "", "localhost", "127", "0x7f", "08"),
        *("m\u00fcnchen", "M\u00dcNCHEN", "mu\u0308nchen", "fa\u00df", "\u0430pple", "\uff45xample", "\u2460"),
        *("\u4f8b\u3048", "exam\u00adple", "local\u200dhost", "\u03c3\u03c2", "example\u3002com", "exa%6dple"),
        *("x" * 63, "x" * 64),
    ]),
    st.text(alphabet="ab01x-_\u00fc\u0301\u0435\u00df\uff11", max_size=8),
)  # fmt: skip
NAMES = st.lists(LABELS, min_size=1, max_size=5).map(".".join)
IPV4 = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.integers(0, 2**33).map(str),
    st.integers(0, 2**32).map(hex),
    st.lists(
        st.sampled_from(["0", "1", "127", "255", "256", "0x7f", "017", "08", "65536"]), min_size=1, max_size=5
    ).map(".".join),
)
IPV6 = st.one_of(
    st.ip_addresses(v=6).map(str),
    st.ip_addresses(v=6).map(lambda address: address.exploded.upper()),
    st.ip_addresses(v=4).map(lambda address: f"::ffff:{address}"),
    st.sampled_from(["::1", "::1%25lo", "fe80::1%eth0", "::ffff:7f00:1", "64:ff9b::7f00:1", "1::2::3", "v1.x", ""]),
).map("[{}]".format)
HOSTS = st.tuples(st.one_of(NAMES, IPV4, IPV6), st.sampled_from(["", "", "", ".", ".."])).map("".join)
PORTS = st.one_of(
    st.just(""), st.integers(0, 70_000).map(":{}".format), st.sampled_from([":", ":x", ":+80", ":\uff18", "::80"])
)
USERS = st.sampled_from(["", "", "", "user@", "user:password@", "example.com@", "@", "a@b@"])


def _requested(url: str) -> tuple[str | None, str | None]:
    """Return the host that a request goes to, or None and the host that a refused one seems to mean."""
    try:
        host = parse_url(url).host
    except MalformedError as error:
        return None, error.meant
    return host, host


def _judged(url: str) -> tuple[str | None, str | None]:
    """Return the same for the host that rules are held against."""
    try:
        host = canonical_url_host(url)
    except MalformedError as error:
        return None, error.meant
    return host, host


@given(HOSTS, PORTS)
@example("[::ffff:127.0.0.1]", "")
@example("[0:0:0:0:0:0:0:1]", ":80")
@example("fa\u00df.example", "")
def test_the_host_that_is_judged_is_the_host_that_is_contacted(host: str, port: str) -> None:
    """What rules accept is contacted by that name; a spelling that they distrust is known to them by what it means."""
    url = f"http://{host}{port}/"
    (requested, meant_by_request), (judged, meant_by_rules) = _requested(url), _judged(url)
    if judged is not None:
        assert requested == judged
    elif requested is not None:
        assert meant_by_rules in (requested, _without_mapping(requested))
    else:
        assert meant_by_rules == meant_by_request


def _without_mapping(host: str) -> str:
    address = ipaddress.ip_address(host) if is_address(host) else None
    return str(meant(host)) if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped else host


@given(HOSTS, PORTS, USERS.filter(bool))
def test_a_user_name_changes_no_host(host: str, port: str, user: str) -> None:
    """Requests refuse a user name; rules look at what is behind it."""
    url = f"http://{user}{host}{port}/"
    assert _requested(url) == (None, None)
    assert _judged(url) == _judged(f"http://{host}{port}/")


@given(HOSTS, PORTS)
def test_a_host_in_a_rule_is_the_host_of_a_url(host: str, port: str) -> None:
    """Rules and settings write a host alone or with a port, and mean by it what a URL with it means."""
    try:
        expected: str | None = canonical_url_host(f"http://{host}{port}/")
    except MalformedError:
        expected = None
    try:
        found: str | None = canonical_host(f"{host}{port}")
    except MalformedError:
        found = None
    # In a URL, an IPv6 address has brackets.
    assert found == expected or (expected is None and ":" in (found or ""))


@pytest.mark.parametrize("port", ["x", "0", "65536", "", "+80"])
def test_an_invalid_port_is_named(port: str) -> None:
    """Whoever reads the port, the message says what is wrong and what is expected."""
    message = f"invalid port {port!r} in 'example.com:{port}': expected a number from 1 to 65535"
    with pytest.raises(MalformedError) as refused:
        parse_authority(f"example.com:{port}")
    assert str(refused.value) == message
    with pytest.raises(MalformedError) as distrusted:
        canonical_url_host(f"http://example.com:{port}/")
    assert str(distrusted.value) == message
    with pytest.raises(RuleError) as wrong:
        Rule("allow", host=f"example.com:{port}")
    assert message in str(wrong.value)


def test_a_password_is_in_no_message() -> None:
    """A URL with a user name is refused by its host alone."""
    with pytest.raises(MalformedError) as refused:
        parse_url("http://me:password@example.com/")
    assert "password" not in str(refused.value)
    assert "example.com" in str(refused.value)
