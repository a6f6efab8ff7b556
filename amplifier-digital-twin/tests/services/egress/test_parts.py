"""The parts by themselves: hosts and their one form, the allow list, routes, the log, the authority."""

from __future__ import annotations

import json
import ssl
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Mock, Rewrite
from amplifier_digital_twin.services.allow import AllowList
from amplifier_digital_twin.services.authority import Authority
from amplifier_digital_twin.services.decisions import Decisions
from amplifier_digital_twin.services.endpoints import Endpoint, MalformedError, is_public, parse_authority, parse_host
from amplifier_digital_twin.services.rewrites import Routes, plain_path

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
HOSTS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PORTS = st.integers(1, 65535)
SEGMENTS = st.from_regex(r"[A-Za-z0-9_~-]{1,8}", fullmatch=True)
PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


@given(st.text(max_size=30))
def test_host_has_one_form(text: str) -> None:
    """Whatever is read as a host reads the same a second time, and is lower case without odd characters."""
    try:
        host = parse_host(text)
    except MalformedError:
        return
    assert parse_host(f"[{host}]" if ":" in host else host) == host
    assert host == host.lower()
    assert not set(host) & set("@/?# \t\r\n\\%*")


@given(HOSTS, PORTS)
def test_authority_is_read_as_it_is_written(host: str, port: int) -> None:
    """Case, a trailing dot and brackets are no difference; a user name is never overlooked."""
    endpoint = Endpoint(host, port)
    assert parse_authority(str(endpoint)) == endpoint
    assert parse_authority(f"{host.upper()}.:{port}") == endpoint
    with pytest.raises(MalformedError):
        parse_authority(f"user@{endpoint}")


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", "-a.test", "a" * 64, "*.test", "1", "0x7f.1", "127.1", "1.2.3.4.5", "01.2.3.4", "256.1.1.1",
     "::1", "[127.0.0.1]", "[::1%eth0]", "a.0x10", "a.test/", "a b", "bücher.test", "a%2etest", "a.test:80"],
)  # fmt: skip
def test_host_that_could_be_read_otherwise_is_none(text: str) -> None:
    """Patterns, partial addresses, other number systems and zones are refused instead of guessed."""
    with pytest.raises(MalformedError):
        parse_host(text)


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "64:ff9b::{}"]))
def test_address_in_disguise_is_judged_as_what_it_is(address: object, form: str) -> None:
    """An IPv4 address inside an IPv6 one is as public as it is by itself."""
    assert is_public(form.format(address)) == is_public(str(address))


@given(st.lists(st.tuples(HOSTS, st.none() | PORTS), max_size=5), HOSTS, PORTS)
def test_allow_list_knows_its_entries_and_nothing_else(
    entries: list[tuple[str, int | None]], host: str, port: int
) -> None:
    """Exactly the hosts and ports that are named are allowed: no child, no parent, no sibling, no other port."""
    allow = AllowList([name if number is None else f"{name}:{number}" for name, number in entries])
    expected = {(name, each) for name, number in entries for each in ((80, 443) if number is None else (number,))}
    for name, number in expected:
        assert allow.allows(name, number)
        assert not allow.allows(f"x.{name}", number) or (f"x.{name}", number) in expected
        assert not allow.allows(f"x{name}", number) or (f"x{name}", number) in expected
        assert not allow.allows(f"{name}.x", number) or (f"{name}.x", number) in expected
    assert allow.allows(host, port) == ((host, port) in expected)


def test_allow_list_takes_names_in_any_spelling() -> None:
    """Entries may be in capitals, end with a dot, be international or be addresses."""
    allow = AllowList(["EXAMPLE.com.", "bücher.test", "192.0.2.1:8080", "[2001:DB8::1]"])
    assert allow.allows("example.com", 443)
    assert allow.allows("xn--bcher-kva.test", 80)
    assert allow.allows("192.0.2.1", 8080)
    assert allow.allows("2001:db8::1", 80)


@pytest.mark.parametrize("entry", ["*", "*.test", "http://a.test", "a.test/x", "u@a.test", "a.test:x", "", "127.1"])
def test_entry_that_is_no_host_is_an_error(entry: str) -> None:
    """What the allow list cannot enforce exactly it does not take."""
    with pytest.raises(TwinError) as caught:
        AllowList([entry])
    assert caught.value.code == "allow_invalid"
    assert repr(entry) in caught.value.message


@given(PATHS, st.text("/abc%1", max_size=8))
def test_path_matches_at_its_boundary_only(path: str, rest: str) -> None:
    """A path matches itself and what is below it, never a longer name that begins like it."""
    routes = Routes([Rewrite(f"api.test{path}", "http://to.test")], [])
    asked = path + rest
    is_inside = plain_path(asked) == path or plain_path(asked).startswith(path + "/")
    assert (routes.find("api.test", 443, asked) is not None) == is_inside


@given(st.dictionaries(PATHS, st.integers(1, 9), min_size=1, max_size=6), PATHS)
def test_longest_path_wins(targets: dict[str, int], asked: str) -> None:
    """Of several paths that match, the longest decides, in whatever order they were given."""
    routes = Routes([Rewrite(f"api.test{path}", f"http://to.test:{port}") for path, port in targets.items()], [])
    matching = [path for path in targets if asked == path or asked.startswith(path + "/")]
    found = routes.find("api.test", 80, asked)
    assert (found and found.endpoint.port) == (targets[max(matching, key=len)] if matching else None)


@pytest.mark.parametrize(
    ("target", "asked", "expected"),
    [
        ("http://to.test", "/v1/x", "/v1/x"),
        ("http://to.test", "/v1/%7ex", "/v1/%7ex"),
        ("http://to.test/", "/v1/x", "/x"),
        ("http://to.test/", "/v1", "/"),
        ("http://to.test/base", "/v1/x/", "/base/x/"),
        ("http://to.test/base/", "/v1/x", "/base/x"),
        ("http://to.test/base", "/%76%31/x", "/base/x"),
        ("mock:m", "/v1/x", "/v1/x"),
    ],
)
def test_path_of_the_target(target: str, asked: str, expected: str) -> None:
    """A target without a path keeps the request's; one with a path takes the place of what matched."""
    routes = Routes([Rewrite("api.test/v1", target)], [Mock("m", "true", 3000)])
    found = routes.find("api.test", 443, asked)
    assert found is not None
    assert found.path == expected


def test_route_is_for_its_host_and_ports() -> None:
    """A match without a port means the web's two, one with a scheme or port means that one."""
    routes = Routes(
        [Rewrite("a.test", "http://t.test"), Rewrite("https://b.test/x", "mock:m"), Rewrite("c.test:8443", "mock:m")],
        [Mock("m", "true", 3000, ("d.test",))],
    )
    assert routes.hosts == {"a.test", "b.test", "c.test", "d.test"}
    covered = [(host, port) for host in "abcd" for port in (80, 443, 8443) if routes.covers(f"{host}.test", port)]
    assert covered == [("a", 80), ("a", 443), ("b", 443), ("c", 8443), ("d", 80), ("d", 443)]
    assert not routes.covers("x.a.test", 443)


@pytest.mark.parametrize(
    ("match", "target"),
    [
        ("*.test", "mock:m"),
        ("a.test/../x", "mock:m"),
        ("ftp://a.test", "mock:m"),
        ("a.test/x?y", "mock:m"),
        ("a.test", "mock:other"),
        ("a.test", "ftp://b.test"),
        ("a.test", "b.test"),
        ("a.test", "http://u:p@b.test"),
        ("a.test", "http://b.test/?q"),
        ("d.test", "http://b.test"),
    ],
)
def test_rewrite_that_cannot_be_followed_exactly_is_an_error(match: str, target: str) -> None:
    """Patterns, unknown mocks, odd targets, and two targets for one place are refused before anything starts."""
    with pytest.raises(TwinError) as caught:
        Routes([Rewrite(match, target)], [Mock("m", "true", 3000, ("d.test",))])
    assert caught.value.code == "rewrite_invalid"


def test_decisions_hold_no_query_and_stay_private(tmp_path: Path) -> None:
    """Lines are JSON in a file of the owner's alone, without what follows `?` or `#`, whatever a client sends."""
    decisions = Decisions(tmp_path / "d ü.jsonl")
    decisions.record("gateway", "refuse", "evil.test", 443, "GET", '/a"\n?token=s3cret#x', "why")
    decisions.record("gateway", "allow", "good.test", 443, "GET" * 9999, "/" + "x" * 9999)
    lines = decisions.path.read_bytes().splitlines()
    assert json.loads(lines[0])["path"] == '/a"\n'
    assert b"s3cret" not in lines[0]
    assert len(lines) == 2
    assert len(lines[1]) < 6000
    assert stat.S_IMODE(decisions.path.stat().st_mode) == 0o600
    assert decisions.refused_hosts() == {"evil.test"}


def test_decisions_that_cannot_be_written_raise(tmp_path: Path) -> None:
    """A log that cannot be written, or is a link to elsewhere, is an error and not a silence."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for path in (tmp_path, tmp_path / "link", tmp_path / "no" / "folder"):
        with pytest.raises(TwinError) as caught:
            Decisions(path).record("gateway", "allow", "a.test", 443)
        assert caught.value.code == "decisions_unwritable"
    assert not (tmp_path / "elsewhere").exists()


def test_authority_vouches_for_its_hosts_only() -> None:
    """Hosts that the authority was not made for get no certificate, and no client would take one."""
    from cryptography import x509

    authority = Authority.create({"api.test", "192.0.2.1"})
    certificate = x509.load_pem_x509_certificate(authority.certificate_pem)
    constraints = certificate.extensions.get_extension_for_class(x509.NameConstraints)
    assert constraints.critical
    assert len(constraints.value.permitted_subtrees or []) == 2
    assert isinstance(authority.context_for("192.0.2.1"), ssl.SSLContext)
    assert authority.context_for("api.test") is authority.context_for("api.test")
    for host in ("evil.test", "x.api.test"):
        with pytest.raises(KeyError):
            authority.context_for(host)


def test_authority_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Private keys are in no file, also where the system has no files in memory."""
    import os
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    Authority.create({"api.test"}).context_for("api.test")
    monkeypatch.delattr(os, "memfd_create")
    Authority.create({"api.test"}).context_for("api.test")
    assert list(tmp_path.iterdir()) == []


def test_refused_hosts_are_bounded(tmp_path: Path) -> None:
    """A program that asks for endless names fills no memory of the host."""
    decisions = Decisions(tmp_path / "decisions.jsonl")
    for number in range(1100):
        decisions.record("gateway", "refuse", f"{number}.{'x' * 400}.example", 443)
    assert len(decisions.refused_hosts()) == 1000
    assert max(map(len, decisions.refused_hosts())) == 253
