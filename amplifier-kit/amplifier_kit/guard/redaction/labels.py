"""Mask secrets that a text itself announces: `password=…`, `Authorization: …`, `https://user:…@host`, `--token …`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amplifier_kit.guard.redaction.label_rules import (
    ANCHORS,
    BARE,
    GROUPS,
    QUOTE,
    SPACE,
    STEMS,
    STRICT,
    STRING,
    Decide,
    Found,
    is_code,
    is_login,
    is_mixed,
    is_passphrase,
    is_path,
    is_placeholder,
    is_random,
)
from amplifier_kit.guard.redaction.prefilter import MASK, MASKS, Glance, any_in, fold, pattern

#: What follows the announcing word of a field.
_FIELD = rf"(?P<gap>{QUOTE}{SPACE}(?:=>|:=|[=:]|\b(?:is|was)\b){SPACE})(?P<value>{STRING}|\\?[\"']?{BARE}{{4,100}})"
_REST = rf"{BARE}*"
#: `key` alone says nothing.
_BEFORE_KEY = (
    *("api", "access", "account", "admin", "app", "application", "deploy", "encryption", "functions", "hmac", "ingest"),
    *("ingestion", "integration", "license", "master", "preshared", "private", "secret", "service", "shared"),
    *("signing", "ssh", "storage", "subscription", "webhook", "write"),
)
#: Labels of passphrases, and a passphrase: words up to the end of the line.
_PASS = "pass(?:word|phrase|code)"
_PHRASES: Final = ("mnemonic", "seed phrase", "seed_phrase", "recovery phrase")
_PHRASE = (
    rf"(?P<gap>{QUOTE}{SPACE}[=:]{SPACE})(?P<value>[A-Za-z0-9]{{2,16}}(?:[ \t\-][A-Za-z0-9]{{2,16}}){{2,23}}+)"
    r"(?=[.!]?[ \t]*(?:\n|\r|\\[nr]|$|[\"'<]))"
)
_AFTER_STEM = frozenset("\"'\\ \t=:")

_ANCHORS: Final = (*ANCHORS, "mnemonic", "phrase")
#: What documentation and schemas write where a secret goes.
_WORDS = frozenset(("string", "none", "null", "true", "false", "hidden", "required", "optional", *STEMS))
_NUMBER = r"[0-9.,:+\-/_]+%?"


def announces_secret(glance: Glance) -> bool:
    """Return, fast, whether a text may hold anything to mask."""
    return any_in(_ANCHORS, glance.text.lower())


def mask_labelled(text: str) -> tuple[str, int]:
    """Return the text with the secrets it announces masked, and how many there were."""
    folded = text.lower()
    if not any_in(_ANCHORS, folded):
        return text, 0
    found = 0
    for group in GROUPS:
        if not group.words or any_in(group.words, folded):
            for words, form, decide in group.rules:
                if any_in(words, folded):
                    text, count = _mask(pattern(form, re.IGNORECASE | re.ASCII), decide, text)
                    found += count
    if any_in(("password", "phrase", "passcode", "mnemonic"), folded):
        text, count = _mask_phrases(text)
        found += count
    text, count = _mask_fields(text)
    return text, found + count


def _mask(form: re.Pattern[str], decide: Decide, text: str) -> tuple[str, int]:
    """Mask the values of the matches that `decide` accepts."""
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        opening, value, closing = _unquote(match["value"])
        start, end = match.span()
        after, before = text[end : end + 16], text[max(0, start - 250) : start]
        found = Found(match["label"], match["gap"], value, bool(closing), after, before)
        if value in MASKS or not decide(found):
            return match.group()
        count += 1
        return f"{match['label']}{match['gap']}{opening}{MASK}{closing}"

    return form.sub(replace, text), count


def _mask_phrases(text: str) -> tuple[str, int]:
    """Mask passphrases without quotes: `password: correct horse battery staple`."""
    folded = fold(text)
    kept: list[str] = []
    done = 0
    ends = [match.end() for match in pattern(_PASS).finditer(folded)]
    ends += [match.end() for label in _PHRASES if label in folded for match in pattern(label).finditer(folded)]
    for start in sorted(ends):
        match = pattern(_PHRASE).match(text, start) if start >= done else None
        if match is not None and is_passphrase(match["value"]):
            kept += (text[done : match.start("value")], MASK)
            done = match.end()
    return ("".join((*kept, text[done:])), len(kept) // 2) if kept else (text, 0)


def _mask_fields(text: str) -> tuple[str, int]:
    """Mask the values of fields: `api_key = "…"`, `DB_PASSWORD=…`; words before the announcing one do not matter."""
    kept: list[str] = []
    done = 0
    for start in sorted(_ends_of_labels(text)):
        match = pattern(_FIELD).match(text, start) if start >= done else None
        if match is None:
            continue
        opening, value, closing = _unquote(match["value"])
        end = match.end()
        found = Found(_label(text, start), match["gap"], value, bool(closing), text[end : end + 16])
        if value in MASKS or not _field_holds_secret(found):
            continue
        kept += (text[done : match.start("value")], opening, MASK, closing)
        done = end if closing else pattern(_REST).match(text, end).end()  # type: ignore[union-attr]  # it matches nothing, too
    return ("".join((*kept, text[done:])), len(kept) // 4) if kept else (text, 0)


def _ends_of_labels(text: str) -> Iterator[int]:
    folded = fold(text)
    for stem in STEMS:
        at = folded.find(stem)
        while at >= 0:
            end = at + len(stem)
            if stem == "credential" and folded.startswith("s", end):
                end += 1
            if folded[end : end + 1] in _AFTER_STEM and (stem != "key" or _names_a_key(folded, at)):
                yield end
            at = folded.find(stem, end)


def _names_a_key(folded: str, at: int) -> bool:
    return folded[max(0, at - 14) : at].rstrip("_- ").endswith(_BEFORE_KEY)


def _label(text: str, end: int) -> str:
    """Return the last word before `end`, at most a dozen characters of it."""
    return re.split(r"[^A-Za-z]", text[max(0, end - 12) : end])[-1]


def _unquote(value: str) -> tuple[str, str, str]:
    """Split a value into its opening quote, its content and its closing quote."""
    for quote in ('\\"', "\\'", '"', "'"):
        if value.startswith(quote):
            inner = value[len(quote) :]
            return (quote, inner[: -len(quote)], quote) if inner.endswith(quote) else (quote, inner, "")
    return "", value, ""


def _field_holds_secret(found: Found) -> bool:
    """Distinguish a secret from code and prose: `token = get_token()`, `password: SecretStr`, `auth: required`."""
    value, label = found.value, found.label.lower()
    strict = label.endswith(STRICT)
    if is_placeholder(value) or is_path(value) or value.lower() in _WORDS:
        return False
    if found.gap.strip() in ("is", "was"):
        return label.startswith("pass") and len(value) >= 6 and value.rstrip(".").isalnum() and is_mixed(value)
    if label == "auth" and not found.after.startswith("(") and is_login(value):
        return True
    if found.quoted:
        return len(value) >= 4 and (strict or is_random(value) or len(value) >= 24)
    if (
        len(value) < 6
        or is_code(found)
        or (value.lower().endswith(label) and (value.isidentifier() or not is_mixed(value)))
    ):
        return False
    if pattern(_NUMBER).fullmatch(value):
        return strict and value.isdigit()
    if strict and found.label.isupper() and found.gap == "=":
        return True
    return is_mixed(value) if strict else is_random(value)
