"""Mask the secrets that this process uses itself, in every form in which they may be written, whole or cut.

Many texts are shortened before they are written: a line of a file, a title, the reason of a hook. The rest of a secret
at such a cut is recognised by its position: the beginning of a secret right before the cut, or its end right after it.
A long rest with digits in it is recognised between words as well.
"""

from __future__ import annotations

import json
import os
import re
from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, quote_plus

from amplifier_kit.guard.redaction.field_names import is_secret_name, may_be_secret
from amplifier_kit.guard.redaction.prefilter import LONG, MASK, MASKS, VERY_LONG, Glance, any_in, is_word, mask_spans

#: Shorter values are left out: they would mask ordinary words.
LEAST = LONG
#: Each line of a secret with several lines, such as a key file, is a secret by itself when it has this length.
_LEAST_LINE = 16

_URL_PASSWORD = r"://[^\s/:@]{0,200}:([^\s/@]{8,500})@"
_SCHEME = r"(?i)(?:bearer|basic|token|apikey)\s+(?=\S{8,}$)"
#: Variables are also called just `KEY`, `PASS` or `PWD`, with something before it.
_ENV_NAME = r"(?i)[A-Z0-9]_(?:KEY|PASS|PWD)$"
#: Names that are also used for a way to authenticate: `auth: managed_identity`. Under these, and under `SORT_KEY`, only
#: a value with a digit, or a JSON object, counts as a secret.
_VAGUE_NAME = r"(?i)(?:auth|credentials?|creds)$"
_TELLING: Final = "[0-9]|^{"
#: A value in a key store under an ordinary name: a region or a version is shorter, or begins with a date.
_LEAST_UNNAMED = 16
_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
#: Ordinary values where a secret belongs. Masking these words would make a log unreadable.
_ORDINARY = frozenset(
    (
        *("anonymous", "changeme", "default", "development", "disabled", "enabled", "localhost", "optional"),
        *("password", "postgres", "production", "required", "undefined"),
    )
)
#: Inside `credentials: {...}` these hold the secret; a user name beside them does not.
_INNER_NAMES = frozenset(("key", "value", "pass", "pwd", "data"))


class LiveValues:
    """Hold known secrets in every form in which they may turn up, and mask them."""

    def __init__(self) -> None:
        #: The longest first: one secret may begin with another.
        self._forms: tuple[str, ...] = ()
        self._words: tuple[str, ...] = ()
        self._long_words: tuple[str, ...] = ()
        self._texts: tuple[str, ...] = ()
        #: Those that could also be written as a number.
        self.numbers: tuple[str, ...] = ()
        #: As they are, in no other form.
        self._plain: tuple[str, ...] = ()
        self._ends = Ends()

    def add(self, values: Iterable[str]) -> None:
        """Know these values from now on; ones shorter than LEAST are left out."""
        forms, plain = set(self._forms), set(self._plain)
        for value in values:
            for secret in _parts(value) if isinstance(value, str) else ():
                plain.add(secret)
                forms.update(form for form in forms_of(secret) if not any(form in mask for mask in MASKS))
        self._forms = tuple(sorted(forms, key=lambda form: (-len(form), form)))
        words = [form for form in self._forms if is_word(form)]
        # There are far fewer very long words in a text, and most secrets are such.
        self._words = tuple(form for form in words if len(form) < VERY_LONG)
        self._long_words = tuple(form for form in words if len(form) >= VERY_LONG)
        self._texts = tuple(form for form in self._forms if not is_word(form))
        self.numbers = tuple(form for form in self._forms if form.isdecimal())
        self._plain = tuple(sorted(plain))
        self._ends = Ends(self._forms, self._plain)

    def may_be_in(self, glance: Glance) -> bool:
        """Return whether a text may hold a known secret."""
        if not self._forms:
            return False
        return (
            any_in(self._long_words, glance.long_words(VERY_LONG))
            or (bool(self._words) and any_in(self._words, glance.long_words()))
            or any_in(self._texts, glance.text)
            or self._ends.may_be_in(glance)
        )

    def found_in_number(self, number: int | float) -> bool:
        """Return whether the digits of a number hold a known secret."""
        if not self.numbers:
            return False
        digits = repr(number)
        return any(form in digits for form in self.numbers)

    def mask(self, text: str) -> tuple[str, int]:
        """Return the text with known secrets masked, and how many there were."""
        found = 0
        for form in self._forms:
            if form in text:
                found += text.count(form)
                text = text.replace(form, MASK)
        text, cut = self._ends.mask(text)
        return text, found + cut


def live_values_from_env(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables that are named like credentials, and the passwords in URLs of all others.

    Left out are values shorter than LEAST, ordinary words, and names of files: the file is the secret, not its name.
    """
    found: list[str] = []
    for name, value in environ.items():
        if is_secret_name(name) or re.search(_ENV_NAME, name):
            found.extend(_worth_masking(name, value))
        else:
            found.extend(re.findall(_URL_PASSWORD, value))
    return found


def live_values_from_keys(keys: Mapping[str, str]) -> list[str]:
    """Return the values of a user's key store that are secrets: all but addresses, dates, files and ordinary words.

    A key store holds secrets, whatever their names are.
    """
    named = live_values_from_env(keys)
    others = [value.strip() for value in keys.values() if "://" not in value and not re.match(_DATE, value.strip())]
    kept = (value for value in others if len(value) >= _LEAST_UNNAMED and re.search(_TELLING, value))
    return list(dict.fromkeys((*named, *(value for value in kept if not _is_file_name(value)))))


def live_values_from_plan(plan: Any) -> list[str]:
    """Return the strings under secret names anywhere in a plan or config, and the passwords in its URLs."""
    found: list[str] = []
    #: Values to visit, each with the secret name above it, if any.
    waiting: list[tuple[Any, str | None]] = [(plan, None)]
    seen: set[int] = set()
    while waiting:
        value, name = waiting.pop()
        if isinstance(value, str):
            found.extend(re.findall(_URL_PASSWORD, value) if name is None else _worth_masking(name, value))
        elif isinstance(value, (Mapping, list, tuple)) and id(value) not in seen:
            seen.add(id(value))
            if isinstance(value, Mapping):
                waiting.extend((item, _secret_name(str(key), item, name)) for key, item in value.items())
            else:
                waiting.extend((item, name) for item in value)
    return found


def _secret_name(key: str, item: Any, around: str | None) -> str | None:
    """Return the key if it makes its item a secret: by itself, or inside a value with a secret name."""
    if (around is not None and key in _INNER_NAMES) or (is_secret_name(key) and may_be_secret(key, item)):
        return key
    return None


def _worth_masking(name: str, value: str) -> list[str]:
    value = value.strip()
    if len(value) < LEAST or value.lower() in _ORDINARY or _is_file_name(value):
        return []
    is_vague = re.search(_VAGUE_NAME, name) is not None or not (is_secret_name(name) or name in _INNER_NAMES)
    return [] if is_vague and not re.search(_TELLING, value) else [value]


def _is_file_name(value: str) -> bool:
    try:
        return "/" in value and os.path.exists(value)
    except (OSError, ValueError):
        return False  # not a valid file name on this system


def _parts(value: str) -> Iterator[str]:
    """Yield the secrets in a value: itself, it without `Bearer`, its lines, those in its JSON, its URL's password."""
    value = value.strip()
    if len(value) < LEAST:
        return
    yield value
    if scheme := re.match(_SCHEME, value):
        yield value[scheme.end() :]
    if "\n" in value or "\\n" in value:
        lines = (line.strip() for line in value.replace("\\n", "\n").splitlines())
        yield from (line for line in lines if len(line) >= _LEAST_LINE and not line.startswith("-----"))
    if value.startswith(("{", "[")):
        try:
            yield from live_values_from_plan(json.loads(value))
        except (ValueError, RecursionError):
            return  # not JSON after all; the whole value is known already
    yield from re.findall(_URL_PASSWORD, value)


def forms_of(secret: str) -> Iterator[str]:
    """Yield how a secret may be written: as it is, escaped in a URL, JSON, Python or HTML, in base64 and in hex."""
    yield secret
    escaped = json.dumps(secret)[1:-1]
    yield from (escaped, json.dumps(secret, ensure_ascii=False)[1:-1], json.dumps(escaped)[1:-1], repr(secret)[1:-1])
    urls = (
        quote(secret, safe="", errors="replace"),
        quote(secret, errors="replace"),
        quote_plus(secret, errors="replace"),
    )
    for quoted in urls:
        yield from (quoted, re.sub("%..", lambda match: match.group().lower(), quoted))
    markup = secret.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    yield from (markup, markup.replace('"', "&quot;"), markup.replace('"', "&quot;").replace("'", "&#x27;"))
    content = secret.encode("utf-8", "replace")
    yield from (content.hex(), content.hex().upper())
    for before in range(3):
        # Inside a longer text in base64, a secret begins at one of three offsets; characters that also depend on its
        # neighbours are left out.
        encoded = b2a_base64(bytes(before) + content, newline=False).decode()
        inner = encoded[(0, 2, 3)[before] : (before + len(content)) * 8 // 6]
        yield from (inner, inner.replace("+", "-").replace("/", "_"))


#: A shorter rest reveals little, and would mask ordinary words.
LEAST_REST: Final = LONG
#: A rest this long, with digits and letters, cannot be an ordinary word, wherever it stands.
_TELLING_REST: Final = 12
#: Signs of a cut: the end of the text, dots, or a remark in brackets, possibly on the next line.
_CUT_AFTER: Final = r"\Z|\s{0,4}(?:…|\.\.|[\[(<{])"
_CUT_BEFORE: Final = r"(?:…|\.\.|[\])>}])\s{0,4}\Z"
_LONGEST_CUT: Final = 8
_WORD: Final = r"[A-Za-z0-9_\-+/=.%~]"
#: Beginnings that URLs, key files and JSON objects share: more of the secret must follow these.
_COMMON: Final = r"[A-Za-z][A-Za-z0-9+.\-]{1,20}(?:://|%3A%2F%2F|%3a%2f%2f)|[{\[][^A-Za-z0-9]*|-----BEGIN[A-Z ]*-+"


class Ends:
    """Find the beginnings and ends of known secrets at cuts."""

    def __init__(self, forms: Iterable[str] = (), plain: Iterable[str] = ()) -> None:
        """Know the beginnings of secrets in all forms in which they may be written, and their ends as they are."""
        #: The secrets by their first characters, with how much must be there, and by their last ones.
        self._heads: dict[str, list[tuple[str, int]]] = {}
        self._tails: dict[str, list[str]] = {}
        for form in forms:
            if len(form) > LEAST_REST and not any(form[:LEAST_REST] in mask for mask in MASKS):
                common = re.match(_COMMON, form)
                least = LEAST_REST + (common.end() if common else 0)
                self._heads.setdefault(form[:LEAST_REST], []).append((form, least))
        for secret in plain:
            if len(secret) > LEAST_REST and not any(secret[-LEAST_REST:] in mask for mask in MASKS):
                self._tails.setdefault(secret[-LEAST_REST:], []).append(secret)
        known = tuple(dict.fromkeys((*self._heads, *self._tails)))
        self._words = tuple(each for each in known if is_word(each))
        self._texts = tuple(each for each in known if not is_word(each))

    def may_be_in(self, glance: Glance) -> bool:
        """Return whether a text may hold the beginning or the end of a known secret."""
        return (bool(self._words) and any_in(self._words, glance.long_words())) or any_in(self._texts, glance.text)

    def mask(self, text: str) -> tuple[str, int]:
        """Mask the rests of known secrets at cuts; return the text and the number of masks."""
        return mask_spans(text, (*self._beginnings(text), *self._endings(text)))

    def _beginnings(self, text: str) -> Iterator[tuple[int, int]]:
        for head, forms in self._heads.items():
            at = text.find(head)
            while at >= 0:
                ends = [end for form, least in forms if (end := _end_of_beginning(text, at, form, least))]
                if ends:
                    yield at, max(ends)
                at = text.find(head, at + 1)

    def _endings(self, text: str) -> Iterator[tuple[int, int]]:
        for tail, forms in self._tails.items():
            at = text.find(tail)
            while at >= 0:
                end = at + LEAST_REST
                starts = [start for form in forms if (start := _start_of_ending(text, end, form)) is not None]
                if starts:
                    yield min(starts), end
                at = text.find(tail, at + 1)


def _end_of_beginning(text: str, at: int, form: str, least: int) -> int | None:
    """Return where the beginning of a secret at `at` is cut off, None if it is not."""
    most = LEAST_REST
    while most < len(form) and text[at + most : at + most + 1] == form[most]:
        most += 1
    for length in range(most, least - 1, -1):
        end = at + length
        if re.compile(_CUT_AFTER).match(text, end) or (
            _is_telling(form[:length]) and not re.compile(_WORD).match(text, end)
        ):
            return end
    return None


def _start_of_ending(text: str, end: int, form: str) -> int | None:
    """Return where the end of a cut secret begins, None if it is not cut."""
    most = LEAST_REST
    while most < len(form) and end > most and text[end - most - 1] == form[-most - 1]:
        most += 1
    for length in range(most, LEAST_REST - 1, -1):
        start = end - length
        is_cut = start == 0 or re.compile(_CUT_BEFORE).search(text, max(0, start - _LONGEST_CUT), start)
        if is_cut or (_is_telling(form[-length:]) and not re.compile(_WORD).match(text, start - 1)):
            return start
    return None


def _is_telling(rest: str) -> bool:
    return (
        len(rest) >= _TELLING_REST
        and any(character.isdigit() for character in rest)
        and any(character.isalpha() for character in rest)
    )
