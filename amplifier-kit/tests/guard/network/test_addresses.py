"""Addresses are judged by what packets to them reach."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.network import is_address, is_ordinary, is_public, meant

CORPUS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "corpus" / "addresses.yaml").read_text("utf-8"))


@pytest.mark.parametrize("address", CORPUS["public"])
def test_addresses_of_the_internet(address: str) -> None:
    """An address that the internet has given out is public."""
    assert is_public(address)
    assert is_ordinary(address)


@pytest.mark.parametrize("address", CORPUS["private"])
def test_addresses_with_another_meaning(address: str) -> None:
    """An address of a private or special network is not public, in whatever form."""
    assert not is_public(address)


@pytest.mark.parametrize("address", CORPUS["never"])
def test_addresses_where_credentials_are(address: str) -> None:
    """Link-local addresses and their like are not even for those who ask by name."""
    assert not is_public(address)
    assert not is_ordinary(address)


@given(st.ip_addresses(v=4))
def test_ipv4_is_judged_alike_in_disguise(address: ipaddress.IPv4Address) -> None:
    """An IPv4 address is what it is, also inside an IPv6 address."""
    for form in (f"::ffff:{address}", f"64:ff9b::{address}"):
        assert is_public(form) == is_public(str(address))
        assert meant(form) == address


@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_not_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    """We are never more generous than the standard library."""
    if address.is_private or address.is_multicast or address.is_reserved or address.is_link_local:
        assert not is_public(str(address)) or meant(str(address)) != address


def test_names_are_no_addresses() -> None:
    """Only what is an address is called one."""
    assert is_address("127.0.0.1")
    assert is_address("::1")
    assert not is_address("localhost")
