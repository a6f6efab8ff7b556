"""Secrets that a text itself announces: `password=…`, `Authorization: …`, `https://user:…@host`, `--token …`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from amplifier_kit.guard.redaction import command_options, config_files
from amplifier_kit.guard.redaction.field_names import is_secret_name
from amplifier_kit.guard.redaction.label_values import (
    BARE,
    STRING,
    Decide,
    Found,
    Rule,
    RuleGroup,
    is_code,
    is_login,
    is_mixed,
    is_no_placeholder,
    is_passphrase,
    is_path,
    is_placeholder,
    is_random,
)
from amplifier_kit.guard.redaction.prefilter import MASK, MASKS, Glance, any_in, fold, pattern

_QUOTE = r"(?:\\?[\"'])?"
_SPACE = r"[ \t]{0,4}"

#: What follows the announcing word of a field.
_FIELD = rf"(?P<gap>{_QUOTE}{_SPACE}(?:=>|:=|[=:]|\b(?:is|was)\b){_SPACE})(?P<value>{STRING}|\\?[\"']?{BARE}{{4,100}})"
_REST = rf"{BARE}*"
_STEMS: Final = ("key", "secret", "password", "passwd", "passphrase", "passcode", "pwd", "token", "auth", "credential")
#: `key` alone says nothing.
_BEFORE_KEY = (
    *("api", "access", "account", "admin", "app", "application", "deploy", "encryption", "functions", "hmac", "ingest"),
    *(
        "ingestion",
        "integration",
        "license",
        "master",
        "preshared",
        "private",
        "secret",
        "service",
        "shared",
        "signing",
    ),
    *("ssh", "storage", "subscription", "webhook", "write"),
)
#: What words that were drawn by lot follow, and they themselves, up to the end of the line.
_PASS = "pass(?:word|phrase|code)"
_PHRASES: Final = ("mnemonic", "seed phrase", "seed_phrase", "recovery phrase")
_PHRASE = (
    rf"(?P<gap>{_QUOTE}{_SPACE}[=:]{_SPACE})(?P<value>[A-Za-z0-9]{{2,16}}(?:[ \t\-][A-Za-z0-9]{{2,16}}){{2,23}}+)"
    r"(?=[.!]?[ \t]*(?:\n|\r|\\[nr]|$|[\"'<]))"
)
_AFTER_STEM = frozenset("\"'\\ \t=:")

_HEADER = (
    rf"(?P<label>authorization)(?P<gap>{_QUOTE}{_SPACE}[=:]{_SPACE}{_QUOTE}(?:[a-z][a-z0-9\-]{{2,20}}[ \t]{{1,3}})?)"
    r"(?P<value>[^\s\"'`\\\[\]]{8,})"
)
_COOKIE = (
    rf"(?P<label>cookie)(?P<gap>{_QUOTE}{_SPACE}:{_SPACE}{_QUOTE})(?P<value>[^\s=;\"'\\]{{1,80}}=[^\n\"'\\]{{4,}})"
)
_BEARER = r"(?P<label>(?-i:bearer|Bearer|BEARER|basic|Basic|BASIC))(?P<gap>[ \t]{1,3})(?P<value>[a-z0-9._~+/=\-]{8,})"
#: These begin with what they must contain, and look back afterwards: so the search for them is fast.
_FLAG = (
    r"(?P<label>--(?<![\w\-]--)[a-z][a-z0-9_\-]{1,40})(?P<gap>=|[ \t]{1,3})(?!-)"
    rf"(?P<value>{STRING}|[^\s\"'\\\[\]]{{4,}})"
)
_LOGIN = (
    r"(?P<label>-u(?<!\w-u)(?:ser)?|--proxy-user)(?P<gap>(?:=|[ \t]{1,3})[\"']?[^\s:\"']{1,80}:)"
    r"(?P<value>[^\s\"'\[\]]{3,})"
)
_URL_LOGIN = r"(?P<label>://)(?P<gap>[^\s/:@\"'<>\\]{0,200}:)(?P<value>[^\s/\"'<>\\]{1,500})(?=@)"
_URL_USER = r"(?P<label>://)(?P<gap>)(?P<value>[a-z0-9_.~\-]{20,300})(?=@)"
_QUERY = r"(?P<label>[?&](?:amp;)?[a-z0-9_.\-]{1,60})(?P<gap>=)(?P<value>[^?&\s\"'<>#;\\\[\]]{4,})"

_SIGNATURES = frozenset(
    ("sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-credential", "code_verifier")
)
#: What help writes for the value of an option, in capital letters: `--password PASSWORD`.
_METAVARS = (*_STEMS, "pass", "pat", "string", "text", "value")
_STRICT = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "key")
#: What documentation and schemas write where a secret goes.
_WORDS = frozenset(("string", "none", "null", "true", "false", "hidden", "required", "optional", *_STEMS))
_NUMBER = r"[0-9.,:+\-/_]+%?"


def announces_secret(glance: Glance) -> bool:
    """Tell, fast, whether it is worth looking closer."""
    return any_in(_ANCHORS, glance.text.lower())


def mask_labelled(text: str) -> tuple[str, int]:
    """Return the text without secrets that it announces, and how many there were."""
    folded = text.lower()
    if not any_in(_ANCHORS, folded):
        return text, 0
    found = 0
    for group in _GROUPS:
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
    """Mask the values of those matches that `decide` finds to be secrets."""
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
    """Mask words that follow a label without quotes: `password: correct horse battery staple`."""
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
    for stem in _STEMS:
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
    """Return the word that ends there, a dozen characters of it."""
    return re.split(r"[^A-Za-z]", text[max(0, end - 12) : end])[-1]


def _unquote(value: str) -> tuple[str, str, str]:
    """Split a value into its opening quote, its content and its closing quote."""
    for quote in ('\\"', "\\'", '"', "'"):
        if value.startswith(quote):
            inner = value[len(quote) :]
            return (quote, inner[: -len(quote)], quote) if inner.endswith(quote) else (quote, inner, "")
    return "", value, ""


def _field_holds_secret(found: Found) -> bool:
    """Tell a secret from code and prose such as `token = get_token()`, `password: SecretStr`, `auth: required`."""
    value, label = found.value, found.label.lower()
    strict = label.endswith(_STRICT)
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


def _header_holds_secret(found: Found) -> bool:
    if is_placeholder(found.value) or is_code(found) or "(" in found.value:
        return False
    return is_mixed(found.value) or len(found.value) >= 24


def _bearer_holds_secret(found: Found) -> bool:
    value = found.value
    if found.label.lower() != "basic":
        return is_random(value) or len(value) >= 24
    return is_login(value)


def flag_holds_secret(found: Found) -> bool:
    """Tell whether the value of an option is a secret: that of `--password …` is, that of `--auth basic` is not."""
    name = found.label.lstrip("-")
    if not is_secret_name(name) or is_placeholder(found.value) or is_path(found.value):
        return False
    if found.value.isupper() and found.value.lower().endswith(_METAVARS):
        return False
    return found.quoted or is_mixed(found.value) or name.lower().endswith(_STRICT)


_KEY_IN_URL: Final = re.compile(r"[\w.~%+/=:-]+")


def _query_holds_secret(found: Found) -> bool:
    name = found.label.lstrip("?&").removeprefix("amp;")
    if is_placeholder(found.value):
        return False
    if name.lower() == "key":
        # `key` is the name of many things; signs that a URL has encoded are not part of a key but of code.
        return len(found.value) >= 16 and is_mixed(found.value) and _KEY_IN_URL.fullmatch(found.value) is not None
    return name.lower() in _SIGNATURES or is_secret_name(name)


def _login_holds_secret(found: Found) -> bool:
    return not found.value.isdigit() and not is_placeholder(found.value)


def _user_is_token(found: Found) -> bool:
    return is_random(found.value)


_GROUPS: Final = (
    RuleGroup(
        (),
        (
            Rule(("?", "&"), _QUERY, _query_holds_secret),
            Rule(("authorization",), _HEADER, _header_holds_secret),
            Rule(("cookie",), _COOKIE, is_no_placeholder),
            Rule(("bearer", "basic"), _BEARER, _bearer_holds_secret),
            Rule(("--",), _FLAG, flag_holds_secret),
            Rule(("-u",), _LOGIN, _login_holds_secret),
        ),
    ),
    RuleGroup(("@",), (Rule(("://",), _URL_LOGIN, is_no_placeholder), Rule(("://",), _URL_USER, _user_is_token))),
    *config_files.GROUPS,
    *command_options.GROUPS,
)
#: Words that are part of others (`authorization`, `--user`) need not be looked for twice.
_ANCHORS: Final = (
    *("@", "?", "&", "--", "-u", "cookie", "bearer", "basic", "mnemonic", "phrase"),
    *(*_STEMS, *config_files.ANCHORS, *command_options.ANCHORS),
)
