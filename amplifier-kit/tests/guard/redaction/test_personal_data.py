"""Personal data."""

from __future__ import annotations

import pytest

from amplifier_kit.guard.redaction.formats import mask_pii, may_hold_pii
from amplifier_kit.guard.redaction.prefilter import PII_MASK, Glance

PERSONAL = {
    "write to {} today": "jane.doe+x@mail.example.co.uk",
    "<{}>": "jürgen@example.de",
    "mailto:{}": "a@163.com",
    "SSN {}.": "123-45-6789",
    "card: {}": "4111 1111 1111 1111",
    "card={}": "5500-0000-0000-0004",
    "visa {}, please": "4111111111111111",
    "amex {}": "3782 822463 10005",
}

ORDINARY = [
    "git@github.com:org/repo.git",
    "ssh://deploy@host.example.com/repo",
    "@app.route('/x') def f(): ...",
    "left-pad@1.3.0-beta.rc",
    "actions/checkout@v4",
    "matrix @ vector.T",
    "2026-11-15T10:00:00.123456789+00:00",
    "1763200000000000000",
    "1763200000000",
    "phone 555-0123-4567, part 123-45-67890, version 1.123-45-6789",
    "4111 1111 1111 1112",
    "0.4111111111111111",
    "550e8400-e29b-41d4-a716-446655440000",
    "666-12-1234 and 000-12-1234 and 123-00-1234",
]


@pytest.mark.parametrize(("text", "data"), PERSONAL.items(), ids=PERSONAL.values())
def test_personal_data_is_masked(text: str, data: str) -> None:
    """Mail addresses, social security numbers and card numbers are masked, and only they."""
    assert mask_pii(text.format(data)) == (text.format(PII_MASK), 1)
    assert may_hold_pii(Glance(text.format(data)))


@pytest.mark.parametrize("text", ORDINARY)
def test_what_only_looks_personal(text: str) -> None:
    """Remotes, decorators, versions, times and numbers with a wrong check digit stay as they are."""
    assert mask_pii(text) == (text, 0)


def test_ordinary_text_needs_no_close_look() -> None:
    """Most texts are let pass at first glance."""
    assert not may_hold_pii(Glance("@decorator on 2026-11-15, 10 of 12 files, @ home"))
