"""Secrets that are known by their form. The examples are put together, so that no scanner takes them for real ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.redaction.formats import mask_tokens, may_hold_token
from amplifier_kit.guard.redaction.prefilter import MASK, VERY_LONG, Glance

R = "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xYz"
HEX = "0123456789abcdef" * 4

TOKENS = {
    "openai": "sk-" + R,
    "openai project": "sk-proj-" + R + "_-" + R,
    "anthropic": "sk-ant-api03-" + R + "-" + R + "AA",
    "letters only": "sk-" + "abcdefghijklmnopqrstuvwxyz",
    "openrouter": "sk-or-v1-" + HEX,
    "stripe": "sk_live_" + R,
    "stripe hook": "whsec_" + R,
    "github": "ghp_" + R + "abc",
    "github server": "ghs_" + R,
    "github fine-grained": "github_pat_" + R + "_" + R,
    "gitlab": "glpat-" + R,
    "aws": "AKIA" + "IOSFODNN7EXAMPLE",
    "aws temporary": "ASIA" + "IOSFODNN7EXAMPLE",
    "google": "AIza" + R + "ab",
    "google oauth": "ya29." + R,
    "slack": "xoxb-" + "1234567890-" + R,
    "hugging face": "hf_" + R,
    "groq": "gsk_" + R,
    "npm": "npm_" + R,
    "pypi": "pypi-" + R,
    "xai": "xai-" + R,
    "nvidia": "nvapi-" + R,
    "docker": "dckr_pat_" + R,
    "digital ocean": "dop_v1_" + HEX,
    "shopify": "shpat_" + HEX[:32],
    "vault": "hvs." + R,
    "sendgrid": "SG." + R[:22] + "." + R,
    "age": "AGE-SECRET-KEY-1" + "Q" * 58,
    "jwt": "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0." + R,
}

ORDINARY = [
    "550e8400-e29b-41d4-a716-446655440000",
    HEX,
    "sha256:" + HEX,
    "commit 3d75307fe1a0c6f5b2a9d8e7c6b5a4f3e2d1c0b9",
    "sk-text-repr-fallback",
    "task-3f2a9b1c-0000-4e5f-9a8b-123456789012",
    "disk-usage-report-2026-11-15.txt",
    "/usr/lib/python3.11/site-packages/sklearn/utils/_test_common/instance_generator.py",
    "https://example.com/a/very/long/path/with-many-words-in-it/index.html?page=2",
    "the_quick_brown_fox_jumps_over_the_lazy_dog = 12345678901234567890",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "pip install amplifier-module-provider-mock==3.0.0",
    "def test_register_contributor_on_session_ready(): ...",
    "AKIA is a prefix, eyJ too, and sk- as well",
    "call_abc123def456ghi789jkl012",
    "toolu_01A09q90qw90lq917835lq9",
    "chatcmpl-9abcDEF123456789",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
]


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_tokens_of_known_services(token: str) -> None:
    """A token is masked as a whole: alone, in a sentence, in a URL, in JSON and in text that was escaped again."""
    around = ["{}", "the key is {}.", "https://x-access-token:{}@host/", '{{"a": "{}"}}', "line\\n{}\\nline", "A={}\n"]
    for text in around:
        masked, found = mask_tokens(text.format(token))
        assert masked.rstrip(".") == text.format(MASK).rstrip(".")
        assert found == 1


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_like_a_token(text: str) -> None:
    """Ids, hashes, commits, paths, names and certificates stay as they are."""
    assert mask_tokens(text) == (text, 0)


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS)
def test_tokens_are_long_enough_to_be_seen(token: str) -> None:
    """Every known token is noticed at first glance, which only looks at long words."""
    assert max(map(len, Glance(token).long_words(VERY_LONG).split())) >= VERY_LONG
    assert may_hold_token(Glance(f"a {token} b"))


def test_a_private_key_is_masked_from_first_to_last_line() -> None:
    """Everything between the marks of a private key goes, whatever kind it is."""
    for kind in ("", "RSA ", "OPENSSH ", "EC ", "ENCRYPTED "):
        key = f"-----BEGIN {kind}PRIVATE KEY-----\nMIIEvQ+/=\n\nabc\n-----END {kind}PRIVATE KEY-----"
        assert mask_tokens(f"a\n{key}\nb {key}") == (f"a\n{MASK}\nb {MASK}", 2)
    block = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 1\n\nabc\n-----END PGP PRIVATE KEY BLOCK-----"
    assert mask_tokens(block) == (MASK, 1)
    assert may_hold_token(Glance(block))


def test_a_private_key_that_was_cut_off() -> None:
    """A key without an end is masked as far as it looks like one, and the prose after it stays."""
    cut = "-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0\\nBAQEFAASC"
    assert mask_tokens(f"{cut} [truncated]") == (f"{MASK}[truncated]", 1)
    assert mask_tokens(f"{cut}... {cut}") == (f"{MASK}... {MASK}", 2)


@given(before=st.text(max_size=10), after=st.text(max_size=10), token=st.sampled_from(list(TOKENS.values())))
def test_no_token_survives(before: str, after: str, token: str) -> None:
    """Unless a letter, digit or hyphen is glued to it, no token survives in any surroundings."""
    if before[-1:].isascii() and (before[-1:].isalnum() or before[-1:] in ("_", "-", "+", "/")):
        before += " "
    if after[:1].isalnum():
        after = f" {after}"
    assert token not in mask_tokens(f"{before}{token}{after}")[0]
