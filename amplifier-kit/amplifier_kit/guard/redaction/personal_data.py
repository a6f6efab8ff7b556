"""Mask personal data with a recognisable form: mail addresses, social security numbers, card numbers."""

from __future__ import annotations

import re

from amplifier_kit.guard.redaction.prefilter import PII_MASK, Glance, pattern

#: Not the login of a URL, not `git@host`, not a package at a version (`left-pad@1.3.0-beta.rc`).
_MAIL = (
    r"(?<![\w.%+\-/])(?!git@)[^\W_][\w.%+\-]{0,63}@(?![0-9]+\.[0-9])"
    r"(?:[A-Za-z0-9\-]{1,63}\.){1,8}[A-Za-z]{2,24}(?![A-Za-z0-9\-(])"
)
_SOCIAL = r"(?<![\w.\-])(?!000|666|9)[0-9]{3}-(?!00)[0-9]{2}-(?!0000)[0-9]{4}(?![\w\-]|\.[0-9])"
#: Numbers with the beginning and length of a card company's; the check digit decides.
_CARD = (
    r"(?<![\w.\-+/])(?:4[0-9]{3}|5[1-5][0-9]{2}|2[2-7][0-9]{2}|6(?:011|5[0-9]{2})|35[0-9]{2}"
    r")(?:(?P<gap>[ \-]?)[0-9]{4})(?:(?P=gap)[0-9]{4}){2}(?![\w\-:+/]|\.[0-9])"
    r"|(?<![\w.\-+/])3[47][0-9]{2}(?P<space>[ \-]?)[0-9]{6}(?P=space)[0-9]{5}(?![\w\-:+/]|\.[0-9])"
)
#: What a text must contain for one of the two above, with a zero for every digit.
_DIGIT_FORMS = (b"000-00-0000", b"000000000000000", b"0000 0000", b"0000-0000-", b"0000 000000 ", b"0000-000000-")


def mask_pii(text: str) -> tuple[str, int]:
    """Return the text with personal data masked, and how often there was some."""
    found = 0
    if _is_between_words("@", text):
        text, found = pattern(_MAIL).subn(PII_MASK, text)
    if _has_digits(Glance(text)):
        text, count = pattern(_SOCIAL, re.ASCII).subn(PII_MASK, text)
        text, cards = _mask_cards(text)
        found += count + cards
    return text, found


def may_hold_pii(glance: Glance) -> bool:
    """Return, fast, whether a text may hold anything to mask."""
    return _is_between_words("@", glance.text) or _has_digits(glance)


def _has_digits(glance: Glance) -> bool:
    digits = glance.digits()
    return any(form in digits for form in _DIGIT_FORMS) if b"0000" in digits else False


def _is_between_words(sign: str, text: str) -> bool:
    """Return whether the sign is anywhere between letters or digits; decorators are many, addresses few."""
    at = text.find(sign)
    while at >= 0:
        if text[at + 1 : at + 2].isalnum() and at > 0 and not text[at - 1].isspace():
            return True
        at = text.find(sign, at + 1)
    return False


def _mask_cards(text: str) -> tuple[str, int]:
    found = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal found
        if not _has_check_digit(match.group()):
            return match.group()
        found += 1
        return PII_MASK

    return pattern(_CARD, re.ASCII).sub(replace, text), found


def _has_check_digit(number: str) -> bool:
    """Return whether the check digit of a card number is right."""
    digits = [int(character) for character in reversed(number) if character.isdigit()]
    doubled = (digit * 2 - 9 * (digit > 4) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
