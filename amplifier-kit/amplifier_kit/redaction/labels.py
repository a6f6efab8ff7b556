"""Secrets that a text itself announces: `password=…`, `Authorization: …`, `https://user:…@host`, `--token …`."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable
from functools import cache
from typing import Final

from amplifier_kit.redaction.mask import MASK, MASKS
from amplifier_kit.redaction.names import is_secret_name

Decide = Callable[[re.Match[str]], bool]

_QUOTED = (
    r'"(?:[^"\\\n]|\\.){1,400}"' + r"|'(?:[^'\\\n]|\\.){1,400}'" + r'|\\"[^"\\\n]{1,400}\\"' + r"|\\'[^'\\\n]{1,400}\\'"
)
_BARE = r"""[^\s"'`&,;<>(){}\[\]|\\]{4,}"""

#: The announcing word, how it ends, and what it announces. The words before it (`DB_PASSWORD`) do not matter.
_FIELD = (
    r"(?P<label>api[_\-]?key|access[_\-]?key|secret[_\-]?key|private[_\-]?key|account[_\-]?key|client[_\-]?secret|secret"
    r"|password|passwd|passphrase|passcode|pwd|token|auth|credentials?)"
    rf"(?P<gap>(?:\\?[\"'])?[ \t]{{0,4}}(?:=>|:=|[=:]|\b(?:is|was)\b)[ \t]{{0,4}})(?P<value>{_QUOTED}|[\"']?{_BARE})"
)
_HEADER = (
    r"(?P<label>authorization)(?P<gap>(?:\\?[\"'])?[ \t]{0,4}[=:][ \t]{0,4}(?:\\?[\"'])?(?:[A-Za-z][A-Za-z0-9\-]{2,20}[ \t]{1,3})?)"
    r"(?P<value>[^\s\"'`\\]{8,})"
)
_COOKIE = r"(?P<label>cookie)(?P<gap>(?:\\?[\"'])?[ \t]{0,4}:[ \t]{0,4}(?:\\?[\"'])?)(?P<value>[^\s=;\"'\\]{1,80}=[^\n\"'\\]{4,})"
_BEARER = r"(?P<label>\bbearer|\bbasic)(?P<gap>[ \t]{1,3})(?P<value>[A-Za-z0-9._~+/=\-]{8,})"
_FLAG = (
    r"(?P<label>(?<![\w\-])--?[A-Za-z][A-Za-z0-9_\-]{1,40})(?P<gap>=|[ \t]{1,3})"
    r"(?P<value>\"[^\"\n]{1,400}\"|'[^'\n]{1,400}'|[^\s\"'\\]{4,})"
)
_LOGIN = r"(?P<label>(?<![\w\-])(?:-u|--user|--proxy-user))(?P<gap>[= \t][ \t]{0,2}[\"']?[^\s:\"']{1,80}:)(?P<value>[^\s\"']{3,})"
_URL_LOGIN = r"(?P<label>://)(?P<gap>[^\s/:@\"'<>\\]{0,200}:)(?P<value>[^\s/\"'<>\\]{1,500})(?=@)"
_URL_USER = r"(?P<label>://)(?P<gap>)(?P<value>[A-Za-z0-9_.~\-]{20,300})(?=@)"
_QUERY = r"(?P<label>(?:[?&]|&amp;)[A-Za-z0-9_.\-]{1,60})(?P<gap>=)(?P<value>[^&\s\"'<>#;\\]{4,})"

_SIGNATURES = frozenset(
    ("sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-credential", "code_verifier")
)
_STRICT = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "key")
_PLACEHOLDERS = re.compile(r"\$\{?\w|\{|%[s(]|<|\.\.\.|…|\*{3}|x{4,}", re.IGNORECASE)
#: What documentation and schemas write where a secret goes.
_WORDS = frozenset("str string text none null true false hidden required optional password secret token".split())
_NAME_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*[.:]?")
_PATH = re.compile(r"[~.]{0,2}/[\w.]|[A-Za-z][A-Za-z0-9+.\-]*://")
_NUMBER = re.compile(r"[0-9.,:+\-/_]+%?")
_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")


def announces_secret(text: str) -> bool:
    """Tell, fast, whether it is worth looking closer."""
    folded = text.lower()
    return any(anchor in folded for anchor in _ANCHORS)


def mask_labelled(text: str) -> tuple[str, int]:
    """Return the text without secrets that it announces, and how many there were."""
    found = 0
    folded = text.lower()
    for index, (anchors, _, decide) in enumerate(_RULES):
        if any(anchor in folded for anchor in anchors):
            text, count = _mask(_pattern(index), decide, text)
            found += count
    return text, found


@cache
def _pattern(index: int) -> re.Pattern[str]:
    return re.compile(_RULES[index][1], re.IGNORECASE | re.ASCII)


def _mask(pattern: re.Pattern[str], decide: Decide, text: str) -> tuple[str, int]:
    """Mask the values of those matches that `decide` finds to be secrets."""
    found = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal found
        quote, value, closing = _unquote(match["value"])
        if value in MASKS or not decide(match):
            return match.group()
        found += 1
        return f"{match['label']}{match['gap']}{quote}{MASK}{closing}"

    return pattern.sub(replace, text), found


def _unquote(value: str) -> tuple[str, str, str]:
    """Split a value into its opening quote, its content and its closing quote."""
    for quote in ('\\"', "\\'", '"', "'"):
        if value.startswith(quote):
            inner = value[len(quote) :]
            return (quote, inner[: -len(quote)], quote) if inner.endswith(quote) else (quote, inner, "")
    return "", value, ""


def _field_holds_secret(match: re.Match[str]) -> bool:
    """Tell a secret from code and prose: `token = get_token()`, `password: SecretStr`, `auth: required` hold none."""
    _, value, closing = _unquote(match["value"])
    label, gap = match["label"], match["gap"]
    strict = label.lower().endswith(_STRICT)
    if _PLACEHOLDERS.match(value) or _PATH.match(value) or value.lower() in _WORDS:
        return False
    if gap.strip() in ("is", "was"):
        return label.lower().startswith("pass") and len(value) >= 6 and value.isalnum() and _is_mixed(value)
    if closing:
        return len(value) >= 4 and (strict or _is_random(value) or len(value) >= 24)
    if len(value) < 6 or value.lower() == label.lower() or _is_called(match):
        return False
    if _NUMBER.fullmatch(value):
        return strict and value.isdigit()
    if label.isupper() and gap == "=":
        return True
    if _NAME_PATH.fullmatch(value) and "." in value.rstrip("."):
        return False
    return _is_mixed(value) if strict else _is_random(value)


def _is_called(match: re.Match[str]) -> bool:
    """Tell whether the value goes on as code: a call, an index, an argument."""
    text, end = match.string, match.end()
    return text[end : end + 1] in ("(", "[", "{") and not text.startswith(MASKS, end)


def _is_mixed(value: str) -> bool:
    """Tell whether a value has letters and digits, as made-up secrets do and words do not."""
    return _DIGIT.search(value) is not None and _LETTER.search(value) is not None


def _is_random(value: str) -> bool:
    """Tell whether a value is mixed well enough not to be a word such as `oauth2`."""
    return len(value) >= 8 and _is_mixed(value) and len(_DIGIT.findall(value)) >= 2


def _header_holds_secret(match: re.Match[str]) -> bool:
    value = match["value"]
    return not _PLACEHOLDERS.match(value) and (_is_mixed(value) or len(value) >= 24)


def _bearer_holds_secret(match: re.Match[str]) -> bool:
    value = match["value"]
    if match["label"].lower() == "bearer":
        return _is_mixed(value) or len(value) >= 24
    try:
        return b":" in a2b_base64(value + "=" * (-len(value) % 4))
    except Error:
        return False


def _flag_holds_secret(match: re.Match[str]) -> bool:
    _, value, closing = _unquote(match["value"])
    name = match["label"].lstrip("-")
    if not is_secret_name(name) or value.startswith("-") or _PLACEHOLDERS.match(value) or _PATH.match(value):
        return False
    return bool(closing) or _is_mixed(value) or name.lower().endswith(_STRICT)


def _login_holds_secret(match: re.Match[str]) -> bool:
    return not match["value"].isdigit() and not _PLACEHOLDERS.match(match["value"])


def _query_holds_secret(match: re.Match[str]) -> bool:
    name, value = match["label"].lstrip("?&").removeprefix("amp;"), match["value"]
    if _PLACEHOLDERS.match(value):
        return False
    if name.lower() == "key":
        return len(value) >= 16 and _is_mixed(value)
    return name.lower() in _SIGNATURES or is_secret_name(name)


def _always(match: re.Match[str]) -> bool:
    return not _PLACEHOLDERS.match(match["value"])


def _mixed(match: re.Match[str]) -> bool:
    return _is_mixed(match["value"])


#: Words that must be there (in lower case), the form, and who decides about a match.
_RULES: Final[tuple[tuple[tuple[str, ...], str, Decide], ...]] = (
    (("@",), _URL_LOGIN, _always),
    (("@",), _URL_USER, _mixed),
    (("?", "&"), _QUERY, _query_holds_secret),
    (("authorization",), _HEADER, _header_holds_secret),
    (("cookie",), _COOKIE, _always),
    (("bearer", "basic"), _BEARER, _bearer_holds_secret),
    (("key", "secret", "passw", "passp", "passc", "pwd", "token", "auth", "credential"), _FIELD, _field_holds_secret),
    (("--", "-pass", "-token", "-secret", "-api"), _FLAG, _flag_holds_secret),
    (("-u", "--user", "--proxy-user"), _LOGIN, _login_holds_secret),
)
_ANCHORS: Final = tuple(anchor for anchors, _, _ in _RULES for anchor in anchors)
