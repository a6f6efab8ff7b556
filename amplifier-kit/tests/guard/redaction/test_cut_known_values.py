"""What is left of a known secret where a text was cut."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.redaction.prefilter import MASK
from amplifier_kit.guard.redaction.redactor import Redactor

KEY = "Zq81bluehorse77staple-green"
WORDS = "correcthorsebatterystaple"
MARKS_AFTER = ("", "…", "...", " …", " [12 more characters]", "\n[... 3,000 characters are left out here ...]")
MARKS_BEFORE = ("", "…", "... ", "[12 characters are left out]\n", "[cut] ")

secrets = st.text(alphabet=string.ascii_letters + string.digits + "+/=_-", min_size=9, max_size=60).filter(
    lambda text: text not in MASK and len(set(text)) > 4
)


def _left(secret: str, text: str) -> str:
    """Return the longest part of a secret that stands in a text."""
    parts = (secret[at : at + size] for size in range(len(secret), 0, -1) for at in range(len(secret) - size + 1))
    return next((part for part in parts if part in text), "")


@pytest.mark.parametrize("secret", [KEY, WORDS])
@pytest.mark.parametrize("mark", MARKS_AFTER)
def test_the_beginning_of_a_secret_before_a_cut(secret: str, mark: str) -> None:
    """Wherever a text is cut in a secret, no more than seven characters of it stay."""
    redactor = Redactor([secret])
    for cut in range(8, len(secret) + 1):
        clean = redactor.scrub_text(f"some words {secret[:cut]}{mark}")
        assert clean == f"some words {MASK}{mark}"
    assert redactor.scrub_text(f"some words {secret[:7]}{mark}") == f"some words {secret[:7]}{mark}"


@pytest.mark.parametrize("secret", [KEY, WORDS])
@pytest.mark.parametrize("mark", MARKS_BEFORE)
def test_the_end_of_a_secret_behind_a_cut(secret: str, mark: str) -> None:
    """Of a text whose beginning was cut off in a secret, no more than seven characters of it stay."""
    redactor = Redactor([secret])
    for cut in range(len(secret) - 7):
        assert redactor.scrub_text(f"{mark}{secret[cut:]} some words") == f"{mark}{MASK} some words"
    assert redactor.scrub_text(f"{mark}{secret[-7:]} some words") == f"{mark}{secret[-7:]} some words"


@given(secret=secrets, data=st.data())
def test_nothing_is_left_at_a_cut(secret: str, data: st.DataObject) -> None:
    """Whatever the secret, the cut and the mark: nothing longer than seven characters of it stays."""
    redactor = Redactor([secret])
    cut = data.draw(st.integers(0, len(secret)))
    before = redactor.scrub_text("word " + secret[:cut] + data.draw(st.sampled_from(MARKS_AFTER)))
    behind = redactor.scrub_text(data.draw(st.sampled_from(MARKS_BEFORE)) + secret[cut:] + " word")
    assert len(_left(secret, before.replace(MASK, " "))) <= 7
    assert len(_left(secret, behind.replace(MASK, " "))) <= 7


def test_in_records_of_any_form() -> None:
    """A cut text is found at any depth of a record, and a long rest with digits between other words."""
    record = {"data": {"todos": [{"content": f"w {KEY[:20]}…"}], "text": f"Hook says: '{KEY[:20]}' and no more"}}
    clean = str(Redactor([KEY])(record))
    assert len(_left(KEY, clean.replace(MASK, " "))) <= 7


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY[:10]}Other-key-that-goes-on x",
        f"{WORDS[:12]} is a word",
        f"it is {WORDS[-7:]}",
        "see https://example.com…",
        "see https://",
        "postgres://",
    ],
)
def test_ordinary_text_that_begins_like_a_secret_stays(text: str) -> None:
    """What begins like a secret and goes on otherwise, or is only how addresses begin, is not masked."""
    live = [KEY, WORDS, "https://hooks.example.net/services/T0/B0/x1y2z3", "postgres://app:pass1234@db/x"]
    assert Redactor(live).scrub_text(text) == text


def test_masking_twice_changes_nothing() -> None:
    """What was masked at a cut stays as it is."""
    redactor = Redactor([KEY, WORDS])
    once = redactor.scrub_text(f"{KEY[9:]} and {WORDS[:12]}… [1 more] {KEY[:15]}")
    assert redactor.scrub_text(once) == once
