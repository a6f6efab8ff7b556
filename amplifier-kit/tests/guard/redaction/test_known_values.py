"""Secrets that are known by their value."""

from __future__ import annotations

import base64
import html
import json
import string
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.redaction.known_values import LiveValues, live_values_from_env, live_values_from_plan
from amplifier_kit.guard.redaction.prefilter import MASK, Glance
from amplifier_kit.guard.redaction.redactor import Redactor

SECRET = "correct/horse+battery=staple"
secrets = st.text(alphabet=string.ascii_letters + string.digits + "+/=&%\"'\\<>é ", min_size=8, max_size=30).filter(
    lambda text: len(text.strip()) >= 8 and text.strip() not in MASK
)


def masked(text: str, *live: str) -> str:
    values = LiveValues()
    values.add(live)
    return values.mask(text)[0]


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        quote(SECRET, safe="").replace("%2F", "%2f").replace("%2B", "%2b").replace("%3D", "%3d"),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
    ],
)
def test_a_secret_is_found_in_every_form(form: str) -> None:
    """A known secret is masked as it is, quoted for a URL, and in hex."""
    assert masked(f"before {form} after", SECRET) == f"before {MASK} after"


@given(secret=secrets, before=st.binary(max_size=5), after=st.binary(max_size=5), safe=st.booleans())
def test_a_secret_is_found_in_base64(secret: str, before: bytes, after: bytes, safe: bool) -> None:
    """A known secret inside of something that was encoded in base64 is masked, wherever it begins."""
    content = before + secret.strip().encode() + after
    encoded = (base64.urlsafe_b64encode if safe else base64.b64encode)(content).decode()
    assert MASK in masked(f"Basic {encoded}", secret)


@given(secret=secrets)
def test_a_secret_is_found_escaped(secret: str) -> None:
    """A known secret is masked in JSON, in JSON inside JSON, as Python writes it, and in HTML."""
    bare = secret.strip()
    for text in (json.dumps([bare]), json.dumps(json.dumps([bare])), repr([bare])):
        assert MASK in masked(text, secret)
    for text in (html.escape(bare), html.escape(bare, quote=False)):
        assert MASK in masked(text, secret)


@given(live=st.lists(secrets, min_size=1, max_size=4), parts=st.lists(st.text(), min_size=2, max_size=4))
def test_nothing_known_survives(live: list[str], parts: list[str]) -> None:
    """After masking, no known secret is in the text, whatever stands between them."""
    text = "".join(f"{part}{secret}" for part, secret in zip(parts, live * 4, strict=False))
    clean = Redactor(live).scrub_text(text)
    assert not [secret for secret in live if secret.strip() in clean]


def test_the_longest_goes_first() -> None:
    """Of two secrets, one of which begins with the other, nothing is left."""
    assert masked("abcdefgh12345678", "abcdefgh", "abcdefgh12345678") == MASK


def test_every_occurrence_counts() -> None:
    """The number of secrets found is told."""
    values = LiveValues()
    values.add(["abcdefgh"])
    assert values.mask("abcdefgh abcdefgh") == (f"{MASK} {MASK}", 2)


def test_the_scheme_is_no_part_of_a_secret() -> None:
    """Of the value of an Authorization header the token is known by itself."""
    assert masked("curl -H 'X: plan-token-2'", "Bearer plan-token-2") == f"curl -H 'X: {MASK}'"
    assert masked("Bearer of news", "Bearer of good news") == "Bearer of news"


def test_short_values_are_left_out() -> None:
    """A value of fewer than eight characters would mask ordinary words."""
    assert masked("the mock is a mock", "mock", "  mock     ") == "the mock is a mock"


def test_the_mask_is_no_secret() -> None:
    """A value that is part of the mask cannot be masked: that would never end."""
    assert masked(f"{MASK} REDACTED", "REDACTED", MASK) == f"{MASK} REDACTED"


def test_the_lines_of_a_key_are_secrets() -> None:
    """Of a secret of several lines every long line is known, also when its line breaks were escaped."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\nAAAAB3NzaC1yc2EAAAAD\n-----END KEY-----"
    for live in (key, key.replace("\n", "\\n")):
        assert masked("head -2: MIIEvQIBADANBgkqhkiG", live) == f"head -2: {MASK}"
        assert masked("-----BEGIN KEY----- short", live) == "-----BEGIN KEY----- short"


def test_the_secrets_in_json_are_secrets() -> None:
    """Of credentials that are a JSON object, the secret fields are known by themselves."""
    live = json.dumps({"type": "service_account", "private_key": "abc-def-ghi-jkl", "project_id": "my-project"})
    assert masked("key abc-def-ghi-jkl of my-project", live) == f"key {MASK} of my-project"
    assert masked("{not json either", "{not json at all") == "{not json either"


def test_numbers_are_looked_at() -> None:
    """A secret of digits is also found in a number."""
    values = LiveValues()
    assert not values.found_in_number(12345678)
    values.add(["12345678"])
    assert values.found_in_number(12345678)
    assert values.found_in_number(9912345678)
    assert not values.found_in_number(12345679)


@given(live=secrets, before=st.text(max_size=5), after=st.text(max_size=5))
def test_a_glance_misses_nothing(live: str, before: str, after: str) -> None:
    """What the quick look lets pass holds no known secret."""
    values = LiveValues()
    values.add([live])
    assert values.may_be_in(Glance(f"{before}{live.strip()}{after}"))
    assert not LiveValues().may_be_in(Glance(live))


def test_values_from_the_environment(tmp_path: Path) -> None:
    """Variables named like credentials give their values, others only the password of a URL."""
    environ = {
        "OPENAI_API_KEY": "sk-some-openai-key",
        "STRIPE_KEY": "stripe-key-1",
        "SORT_KEY": "created_at",
        "REGISTRY_AUTH": "htpasswd",
        "DB_PASS": "db-pass-value",
        "DATABASE_URL": "postgres://app:url-password@db/app",
        "HOME": "/home/somebody",
        "PWD": "/home/somebody/project",
        "SHORT_TOKEN": "abc",
        "POSTGRES_PASSWORD": "postgres",
        "FEATURE_AUTH": "disabled",
        "GOOGLE_APPLICATION_CREDENTIALS": str(tmp_path),
        "SECRET_TOKEN": "\0/impossible",
    }
    assert live_values_from_env(environ) == [
        "sk-some-openai-key",
        "stripe-key-1",
        "db-pass-value",
        "url-password",
        "\0/impossible",
    ]


def test_values_from_a_plan() -> None:
    """Strings under secret names are secrets, wherever they stand; references, user names and schemas are not."""
    plan: dict[str, object] = {
        "providers": [{"module": "provider-x", "config": {"api_key": "plan-api-key-1", "model": "some-model"}}],
        "tools": [{"config": {"headers": {"Authorization": "Bearer plan-token-2"}, "api_keys": ["plan-key-3", "x"]}}],
        "credentials": {"user": "administrator", "key": "plan-secret-4"},
        "hooks": ({"config": {"url": "https://u:plan-password-5@host/x", "password": "${DB_PASSWORD}"}},),
        "auth": "managed_identity",
        "schema": {"properties": {"password": {"type": "string", "description": "your password"}}},
    }
    plan["self"] = plan
    assert sorted(live_values_from_plan(plan)) == [
        "Bearer plan-token-2",
        "plan-api-key-1",
        "plan-key-3",
        "plan-password-5",
        "plan-secret-4",
    ]
