"""Hosts in the one form in which they are compared."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.network import MalformedError, canonical_host, canonical_url_host


@given(st.integers(0, 2**32 - 1), st.sampled_from(["{}", "0x{:x}", "0{:o}"]))
def test_number_means_the_address_that_the_system_connects_to(number: int, form: str) -> None:
    """A number is read as the C library reads it, and is never accepted as a plain name."""
    text = form.format(number)
    try:
        meant = canonical_host(text)
    except MalformedError as error:
        meant = str(error.meant)
    assert meant == socket.inet_ntoa(socket.inet_aton(text))


@given(
    st.lists(st.sampled_from(["1", "0", "255", "0x7f", "017", "256", "08", "", "a", "65536"]), min_size=1, max_size=5)
)
def test_dotted_numbers_are_never_names(labels: list[str]) -> None:
    """Whatever the C library takes for an address is one here, the same one; the rest is refused or a name."""
    text = ".".join(labels)
    try:
        address = socket.inet_ntoa(socket.inet_aton(text))
    except OSError:
        address = None
    try:
        found: str | None = canonical_host(text)
    except MalformedError as error:
        found = error.meant
    if address is not None:
        assert found == address


@given(st.text(max_size=30))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    """What is accepted is plain ASCII in lower case, and stays as it is when it is read again."""
    try:
        host = canonical_host(text)
    except MalformedError:
        return
    assert host.isascii()
    assert canonical_host(host) == host


@pytest.mark.parametrize(
    ("text", "host"),
    [("A.com:80", "a.com"), ("[::1]:80", "::1"), ("::1", "::1"), ("1.2.3.4:5", "1.2.3.4"), ("a.com.", "a.com")],
)
def test_port_is_no_part_of_a_host(text: str, host: str) -> None:
    """A port, brackets, a final dot and capitals make no other host."""
    assert canonical_host(text) == host


def test_user_part_of_a_url_is_no_host() -> None:
    """What stands before the `@` is not where the request goes."""
    assert canonical_url_host("https://example.com@evil.net:8080/x") == "evil.net"


@pytest.mark.parametrize(("text", "address"), [("0x", "0.0.0.0"), ("127.0x.1", "127.0.0.1")])
def test_bare_hexadecimal_prefix_means_zero(text: str, address: str) -> None:
    """Some programs read it so: a rule that denies the address denies this form of it."""
    with pytest.raises(MalformedError) as caught:
        canonical_host(text)
    assert caught.value.meant == address
