"""Secrets that a text itself announces: `password=…`, `Authorization: …`, `https://user:…@host`, `--token …`."""

from __future__ import annotations

import re
from binascii import Error, a2b_base64
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from amplifier_kit.redaction.glance import Glance, any_in, fold
from amplifier_kit.redaction.lazy import pattern
from amplifier_kit.redaction.mask import MASK, MASKS
from amplifier_kit.redaction.names import is_secret_name


class Found(NamedTuple):
    """A label, what stands between it and its value, and the value."""

    label: str
    gap: str
    value: str
    #: Whether the value stands in quotes, whole.
    quoted: bool
    #: What follows the value, a few characters of it.
    after: str


Decide = Callable[[Found], bool]

_QUOTE = r"(?:\\?[\"'])?"
_SPACE = r"[ \t]{0,4}"
_STRING = r"\"(?:[^\"\\\n]|\\.){1,400}\"|'(?:[^'\\\n]|\\.){1,400}'" + r"|\\\"[^\"\\\n]{1,400}\\\"|\\'[^'\\\n]{1,400}\\'"
_BARE = r"[^\s\"'`&,;<>(){}\[\]|\\]"

#: What follows the announcing word of a field.
_FIELD = (
    rf"(?P<gap>{_QUOTE}{_SPACE}(?:=>|:=|[=:]|\b(?:is|was)\b){_SPACE})(?P<value>{_STRING}|\\?[\"']?{_BARE}{{4,100}})"
)
_REST = rf"{_BARE}*"
_STEMS: Final = ("key", "secret", "password", "passwd", "passphrase", "passcode", "pwd", "token", "auth", "credential")
#: `key` alone says nothing.
_BEFORE_KEY = ("api", "access", "secret", "private", "account", "signing", "encryption", "subscription", "master")
_AFTER_STEM = frozenset("\"'\\ \t=:")

_HEADER = (
    rf"(?P<label>authorization)(?P<gap>{_QUOTE}{_SPACE}[=:]{_SPACE}{_QUOTE}(?:[a-z][a-z0-9\-]{{2,20}}[ \t]{{1,3}})?)"
    r"(?P<value>[^\s\"'`\\\[\]]{8,})"
)
_COOKIE = (
    rf"(?P<label>cookie)(?P<gap>{_QUOTE}{_SPACE}:{_SPACE}{_QUOTE})(?P<value>[^\s=;\"'\\]{{1,80}}=[^\n\"'\\]{{4,}})"
)
_BEARER = r"(?P<label>\bbearer|\bbasic)(?P<gap>[ \t]{1,3})(?P<value>[a-z0-9._~+/=\-]{8,})"
#: These begin with what they must contain, and look back afterwards: so the search for them is fast.
_FLAG = (
    r"(?P<label>--(?<![\w\-]--)[a-z][a-z0-9_\-]{1,40})(?P<gap>=|[ \t]{1,3})(?!-)"
    rf"(?P<value>{_STRING}|[^\s\"'\\\[\]]{{4,}})"
)
_LOGIN = r"(?P<label>-u(?<!\w-u)(?:ser)?)(?P<gap>(?:=|[ \t]{1,3})[\"']?[^\s:\"']{1,80}:)(?P<value>[^\s\"'\[\]]{3,})"
_URL_LOGIN = r"(?P<label>://)(?P<gap>[^\s/:@\"'<>\\]{0,200}:)(?P<value>[^\s/\"'<>\\]{1,500})(?=@)"
_URL_USER = r"(?P<label>://)(?P<gap>)(?P<value>[a-z0-9_.~\-]{20,300})(?=@)"
_QUERY = r"(?P<label>[?&](?:amp;)?[a-z0-9_.\-]{1,60})(?P<gap>=)(?P<value>[^?&\s\"'<>#;\\\[\]]{4,})"

_SIGNATURES = frozenset(
    ("sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-credential", "code_verifier")
)
_STRICT = ("password", "passwd", "passphrase", "passcode", "pwd", "secret", "key")
#: What stands for a secret that is filled in later, or was taken out already.
_PLACEHOLDER = (
    r"\$\{[^}]*\}|\$\(?(?:[A-Z_][A-Z0-9_]*|[A-Za-z_]+)\)?|\{\{?[^{}]*\}?\}|%s|%\(\w+\)s"
    r"|<[^<>]*>?|\.{3}|…|\*{3,}|[xX]{4,}"
)
#: What documentation and schemas write where a secret goes.
_WORDS = frozenset(("string", "none", "null", "true", "false", "hidden", "required", "optional", *_STEMS))
_NAME_PATH = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[.:]?"
_PATH = r"[~.]{0,2}/[\w.]|[A-Za-z][A-Za-z0-9+.\-]{1,20}://"
_NUMBER = r"[0-9.,:+\-/_]+%?"
_DIGIT = r"[0-9]"
_LETTER = r"[A-Za-z]"


def announces_secret(glance: Glance) -> bool:
    """Tell, fast, whether it is worth looking closer."""
    return any_in(_ANCHORS, glance.text.lower())


def mask_labelled(text: str) -> tuple[str, int]:
    """Return the text without secrets that it announces, and how many there were."""
    folded = text.lower()
    if not any_in(_ANCHORS, folded):
        return text, 0
    found = 0
    for words, form, decide in _RULES:
        if any_in(words, folded):
            text, count = _mask(pattern(form, re.IGNORECASE | re.ASCII), decide, text)
            found += count
    text, count = _mask_fields(text)
    return text, found + count


def _mask(form: re.Pattern[str], decide: Decide, text: str) -> tuple[str, int]:
    """Mask the values of those matches that `decide` finds to be secrets."""
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        opening, value, closing = _unquote(match["value"])
        found = Found(match["label"], match["gap"], value, bool(closing), text[match.end() : match.end() + 16])
        if value in MASKS or not decide(found):
            return match.group()
        count += 1
        return f"{match['label']}{match['gap']}{opening}{MASK}{closing}"

    return form.sub(replace, text), count


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
    """Tell a secret from code and prose: `token = get_token()`, `password: SecretStr`, `auth: required` hold none."""
    value, label = found.value, found.label.lower()
    strict = label.endswith(_STRICT)
    if pattern(_PLACEHOLDER).fullmatch(value) or pattern(_PATH).match(value) or value.lower() in _WORDS:
        return False
    if found.gap.strip() in ("is", "was"):
        return label.startswith("pass") and len(value) >= 6 and value.rstrip(".").isalnum() and _is_mixed(value)
    if found.quoted:
        return len(value) >= 4 and (strict or _is_random(value) or len(value) >= 24)
    if len(value) < 6 or value.lower().endswith(label) or _is_code(found):
        return False
    if pattern(_NUMBER).fullmatch(value):
        return strict and value.isdigit()
    if strict and found.label.isupper() and found.gap == "=":
        return True
    return _is_mixed(value) if strict else _is_random(value)


def _is_code(found: Found) -> bool:
    """Tell whether the value is an expression: a call, an index, a name with dots."""
    if found.after.startswith(("(", "[", "{")) and not found.after.startswith(MASKS):
        return True
    return pattern(_NAME_PATH).fullmatch(found.value) is not None


def _is_mixed(value: str) -> bool:
    """Tell whether a value has letters and digits, as made-up secrets do and words do not."""
    return pattern(_DIGIT).search(value) is not None and pattern(_LETTER).search(value) is not None


def _is_random(value: str) -> bool:
    """Tell whether a value is mixed well enough not to be a word such as `oauth2`."""
    return len(value) >= 8 and _is_mixed(value) and len(pattern(_DIGIT).findall(value)) >= 2


def _header_holds_secret(found: Found) -> bool:
    if pattern(_PLACEHOLDER).fullmatch(found.value) or _is_code(found) or "(" in found.value:
        return False
    return _is_mixed(found.value) or len(found.value) >= 24


def _bearer_holds_secret(found: Found) -> bool:
    value = found.value
    if found.label.lower() == "bearer":
        return _is_random(value) or len(value) >= 24
    try:
        return b":" in a2b_base64(value + "=" * (-len(value) % 4))
    except Error:
        return False


def _flag_holds_secret(found: Found) -> bool:
    name = found.label.lstrip("-")
    if not is_secret_name(name) or pattern(_PLACEHOLDER).fullmatch(found.value) or pattern(_PATH).match(found.value):
        return False
    return found.quoted or _is_mixed(found.value) or name.lower().endswith(_STRICT)


def _query_holds_secret(found: Found) -> bool:
    name = found.label.lstrip("?&").removeprefix("amp;")
    if pattern(_PLACEHOLDER).fullmatch(found.value):
        return False
    if name.lower() == "key":
        return len(found.value) >= 16 and _is_mixed(found.value)
    return name.lower() in _SIGNATURES or is_secret_name(name)


def _login_holds_secret(found: Found) -> bool:
    return not found.value.isdigit() and not pattern(_PLACEHOLDER).fullmatch(found.value)


def _is_no_placeholder(found: Found) -> bool:
    return not pattern(_PLACEHOLDER).fullmatch(found.value)


def _user_is_token(found: Found) -> bool:
    return _is_random(found.value)


#: Words of which one must be there (in lower case), the form, and who decides about a match.
_RULES: Final[tuple[tuple[tuple[str, ...], str, Decide], ...]] = (
    (("@",), _URL_LOGIN, _is_no_placeholder),
    (("@",), _URL_USER, _user_is_token),
    (("?", "&"), _QUERY, _query_holds_secret),
    (("authorization",), _HEADER, _header_holds_secret),
    (("cookie",), _COOKIE, _is_no_placeholder),
    (("bearer", "basic"), _BEARER, _bearer_holds_secret),
    (("--",), _FLAG, _flag_holds_secret),
    (("-u",), _LOGIN, _login_holds_secret),
)
#: Words that are part of others (`authorization`, `--user`) need not be looked for twice.
_ANCHORS: Final = ("@", "?", "&", "--", "-u", "cookie", "bearer", "basic", *_STEMS)
