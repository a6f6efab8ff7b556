"""Mask what is recognised by its form: tokens of known services (`tokens.txt`), private keys, personal data."""

from __future__ import annotations

import re
import string
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from os.path import commonprefix
from pathlib import Path
from typing import Final

from amplifier_kit.guard.redaction.prefilter import (
    HEAD,
    MASK,
    PII_MASK,
    VERY_LONG,
    Glance,
    any_in,
    is_word,
    mask_spans,
    pattern,
)
from amplifier_kit.named_tuple import NamedTuple

# -- the table of tokens --

_ALNUM: Final = string.ascii_letters + string.digits

#: The characters of each kind in `{kind:count}`.
ALPHABETS: Final = {
    "digit": string.digits,
    "hex": "0123456789abcdef",
    "Hex": "0123456789abcdefABCDEF",
    "uuid": "0123456789abcdef-",
    "lower": string.ascii_lowercase + string.digits,
    "upper": string.ascii_uppercase + string.digits,
    "alnum": _ALNUM,
    "word": _ALNUM + "_-",
    "dotted": _ALNUM + "_-.",
    "tilde": _ALNUM + "_-.~",
    "base64": _ALNUM + "+/",
    "padded": _ALNUM + "+/=_-",
    "path": _ALNUM + "_-/",
    "percent": _ALNUM + "_-.%+/=",
    # Characters that base64 has at certain places: of zero bits, and of a number.
    "quarter": "AQgw",
    "third": "AEIMQUYcgk",
    "fourth": "wxyz012345",
}

#: The characters after which a token cannot start, by the option `start`.
_NOT_AFTER: Final = {
    "": "A-Za-z0-9",
    "anywhere": "",
    "alone": r"A-Za-z0-9_\-",
    "not-base64": r"A-Za-z0-9_\-+/",
}


class Run(NamedTuple):
    """At least `least`, at most `most` characters of one kind; None means no limit."""

    kind: str
    least: int
    most: int | None


class TokenFormat(NamedTuple):
    """What the tokens of one service look like: a row of the table."""

    service: str
    marks: str
    after: str
    before: str = ""
    #: The characters after which it cannot start.
    not_after: str = _NOT_AFTER[""]
    mixed: bool = False
    keep: bool = False

    @classmethod
    def from_row(cls, row: str) -> TokenFormat:
        service, marks, after, *rest = (part.strip() for part in row.split("|"))
        options = dict(option.partition("=")[::2] for option in "".join(rest).split())
        start = _NOT_AFTER[options.get("start", "")]
        return cls(service, marks, after, options.get("before", ""), start, "mixed" in options, "keep" in options)

    def groups(self) -> list[tuple[str, list[str]]]:
        """Return the marks that can be searched for together, with their common prefix."""
        marks = self.marks.split()
        common = commonprefix(marks)  # noqa: RUF071  # of characters, as is meant here
        return [(common, marks)] if len(common) > 1 else [(mark, [mark]) for mark in marks]

    def pattern(self, common: str, marks: Iterable[str]) -> str:
        """Return the regular expression for tokens with these marks.

        In a match, `mark` is the mark of a token that has one in front, and `body` its random part.
        """
        literal, after = re.escape(common), _expression(self.after) + _end(self.after)
        rest = "|".join(re.escape(mark.removeprefix(common)) for mark in marks)
        if self.before:
            before = _start(self.not_after, "") + _expression(self.before)
            return f"(?P<mark>)(?P<body>{before}{literal}(?:{rest}){after})"
        # The mark comes first and the text before it is checked afterwards, which makes the search fast.
        return f"(?P<mark>{literal}{_start(self.not_after, literal)}(?:{rest}))(?P<body>{after})"

    def is_token(self, body: str) -> bool:
        """Return whether a match is a token; one with text before and after its mark always is."""
        return bool(self.before) or is_made_up(body, self.mixed)


def is_made_up(body: str, mixed: bool) -> bool:
    """Return whether a body is random, not a name (`sk-text-repr-fallback`) or a placeholder (`sk-xxxxxxxx`).

    A body with a random part is random, so a search may continue after a body that was rejected.
    """
    if re.search(_BLANK, body) and len(re.sub(_BLANKS, "", body)) <= _LONGEST_NAME:
        return False
    if not re.search(_RANDOM, body):
        return False
    return not mixed or all(re.search(kind, body) for kind in ("[a-z]", "[A-Z]", "[0-9]"))


def parts(template: str) -> Iterator[str | Run]:
    """Yield the literals and runs of a template."""
    for literal, kind, least, sign, most in _PART.findall(template):
        yield literal or Run(kind, int(least), None if sign == "+" else int(most or least))


#: A long run of letters, or a digit in a run of letters and digits: names have words and numbers between their hyphens.
_RANDOM: Final = "[A-Za-z]{20}|(?=[A-Za-z0-9]{6})[A-Za-z]*+[0-9]"
#: What documentation writes in place of a token, and how long a name before it may be: `sk-ant-api03-xxxxxxxx`.
_BLANK: Final = r"[xX*.]{6}"
_BLANKS: Final = r"[xX*._\-]"
_LONGEST_NAME = 10
_PART = re.compile(r"([^{}]+)|\{([A-Za-z0-9]+):([0-9]+)(?:(\+)|-([0-9]+))?\}")


def _expression(template: str) -> str:
    expression = ""
    for part in parts(template):
        if isinstance(part, str):
            expression += re.escape(part)
        else:
            most = "" if part.most is None else part.most
            expression += f"[{re.escape(ALPHABETS[part.kind])}]{{{part.least},{most}}}"
    return expression


def _end(template: str) -> str:
    """Return the condition for the text after a token: a run that is too long is something else."""
    last = [None, *parts(template)][-1]
    return "" if isinstance(last, Run) and last.most is None else "(?![A-Za-z0-9])"


def _start(forbidden: str, mark: str) -> str:
    """Return the condition for the text before the mark, to be tested after the mark.

    Escapes end in letters and digits that do not belong to the word after them: `\\n` in escaped text, `%3D` in URLs,
    and the colours of a terminal.
    """
    if not forbidden:
        return ""
    escapes = (r"\\[nrt]", "%[0-9A-Fa-f]{2}", r"\[m", r"[\[;][0-9]m", r"[\[;][0-9]{2}m", ";[0-9]{3}m")
    return "(?:" + "|".join((f"(?<![{forbidden}]{mark})", *(f"(?<={escape}{mark})" for escape in escapes))) + ")"


@cache
def token_formats() -> tuple[TokenFormat, ...]:
    """Return the rows of the table."""
    lines = Path(__file__).with_name("tokens.txt").read_text(encoding="utf-8").splitlines()
    return tuple(TokenFormat.from_row(line) for line in lines if line and not line.startswith("#"))


# -- the search for tokens --


class _Search:
    """The search for the tokens of one row, or for those with one of its marks."""

    def __init__(self, number: int, form: TokenFormat, common: str, marks: list[str]) -> None:
        #: The place in the table; the first rows are masked first.
        self.number = number
        self._form = form
        self._marks = common, tuple(marks)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self._form.pattern(*self._marks))

    @cached_property
    def _needs_text(self) -> bool:
        """Whether such a token is several words."""
        return not all(map(is_word, _literals(self._form, self._marks[0])))

    def finds_any(self, glance: Glance) -> bool:
        text = glance.text if self._needs_text or glance.has_escapes else glance.long_words(VERY_LONG)
        # Looking for the marks first is fast, and spares compiling most patterns.
        return any_in(self._marks[1], text) and any(map(self._is_token, self._pattern.finditer(text)))

    def mask(self, text: str) -> tuple[str, int]:
        matches = filter(self._is_token, self._pattern.finditer(text))
        starts_after_mark = self._form.keep
        return mask_spans(
            text, ((each.end("mark") if starts_after_mark else each.start(), each.end()) for each in matches)
        )

    def _is_token(self, match: re.Match[str]) -> bool:
        return self._form.is_token(match["body"])


class _Index(NamedTuple):
    """The searches by the text they need.

    A text without tokens costs about the same however long the table is: most marks begin a word, and the first
    characters of all long words are looked up at once.
    """

    by_head: dict[bytes, list[_Search]]
    #: The heads by their length: a mark shorter than a head is looked up by what there is of it.
    heads: dict[int, set[bytes]]
    in_words: list[tuple[str, list[_Search]]]


#: A mark that begins with one of these begins a piece, even inside of a token.
_BREAKS = "-.+:"
_SEPARATORS = re.compile("[^A-Za-z0-9]+")


def may_hold_token(glance: Glance) -> bool:
    """Return, fast, whether a text may hold anything to mask."""
    return any(search.finds_any(glance) for search in _searches_for(glance)) or may_hold_private_key(glance)


def mask_tokens(text: str) -> tuple[str, int]:
    """Return the text with tokens and private keys masked, and how many there were."""
    total = 0
    for search in sorted(_searches_for(Glance(text)), key=lambda search: search.number):
        text, found = search.mask(text)
        total += found
    text, found = mask_private_keys(text)
    return text, total + found


def _searches_for(glance: Glance) -> set[_Search]:
    """Return the searches whose marks may be in the text.

    No token is shorter than VERY_LONG, so only long words are looked at.
    """
    found: set[_Search] = set()
    if words := glance.long_words(VERY_LONG):
        by_head, known_by_length, in_words = _index()
        for anchor, searches in in_words:
            if anchor in words:
                found.update(searches)
        heads = glance.heads()
        for length, known in known_by_length.items():
            for head in known & (heads if length == HEAD else {head[:length] for head in heads}):
                found.update(by_head[head])
    return found


@cache
def _index() -> _Index:
    by_head: dict[bytes, list[_Search]] = {}
    in_words: dict[str, list[_Search]] = {}
    for number, form in enumerate(token_formats()):
        for anchor, marks in form.groups():
            search = _Search(number, form, anchor, marks)
            if not form.not_after or (form.before and anchor[0] not in _BREAKS):
                in_words.setdefault(anchor, []).append(search)
            else:
                for head in {_head(mark) for mark in marks}:
                    by_head.setdefault(head, []).append(search)
    # Of anchors that are part of others, the short ones are enough.
    short = [anchor for anchor in in_words if not any(other in anchor for other in in_words if other != anchor)]
    merged = [
        (part, [search for anchor in in_words if part in anchor for search in in_words[anchor]]) for part in short
    ]
    known: dict[int, set[bytes]] = {}
    for head in by_head:
        known.setdefault(len(head), set()).add(head)
    return _Index(by_head, known, merged)


def _head(mark: str) -> bytes:
    """Return how the first piece of a token with this mark begins."""
    return next(piece for piece in _SEPARATORS.split(mark) if piece)[:HEAD].encode()


def _literals(form: TokenFormat, common: str) -> list[str]:
    return [common, *(part for part in (*parts(form.before), *parts(form.after)) if isinstance(part, str))]


# -- private keys: whole, cut off at either end, without their markers, as PuTTY, JSON and base64 hold them --

_BEGIN = r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
_END = r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
#: What may follow the first line of a key whose last line was cut off.
_KEY_TEXT = r"(?:[A-Za-z0-9+/=\s]|\\[nr])*"

#: A line break, also in text that was escaped once or twice.
_BREAK = r"(?:\r|\\{1,4}r)?(?:\n|\\{1,4}n)"
#: The lines of a key in base64, all of them long but for the last one.
_LINE = r"[ \t]{0,16}+[A-Za-z0-9+/]{32,}+={0,2}+"
_NEXT = rf"[ \t]{{0,4}}+{_BREAK}"
_LAST_LINE = rf"[ \t]{{0,16}}+[A-Za-z0-9+/]{{1,31}}+={{0,2}}+(?=[ \t]{{0,4}}(?:{_BREAK}|[\"']|$))"
_LINES = rf"{_LINE}(?:{_NEXT}{_LINE})*+(?:{_NEXT}{_LAST_LINE})?"

#: How the bytes of a private key begin in base64: a sequence, the version, and what follows only in private keys. Each
#: begins with its first letter and looks back after it, which makes the search fast.
_OUTSIDE = r"M(?:(?<![A-Za-z0-9+/]M)|(?<=\\[nrt]M))"
_BODY = (
    rf"(?:{_OUTSIDE}(?:"
    r"II[A-Za-z0-9+/]{2}[AQgw]IBA[AD]"  # RSA and DSA
    r"|II[A-Za-z0-9+/]{4,6}BgkqhkiG9w0BBQ0w"  # encrypted
    r"|(?:IG|IH|H|F|D)[A-Za-z0-9+/]{1,2}(?:CAQEE|AgEBB)"  # elliptic curves
    r"|(?:IG|IH|C|E|F)[A-Za-z0-9+/]{1,2}(?:CAQAw|AgEAM)B[A-Za-z0-9+/]"  # elliptic curves, in PKCS #8
    rf")|b3BlbnNzaC1rZXktdjE)(?=[A-Za-z0-9+/]{{32}}){_LINES}"  # OpenSSH
)
_BODY_MARKS: Final = ("IBA", "BgkqhkiG9w0BBQ0w", "CAQEE", "AgEBB", "CAQAw", "AgEAM", "b3BlbnN", "LS0tL")
#: The lines of a key from its end: the one before the last marker may be short, those before it are long.
_SHORT = rf"[ \t]*=?[A-Za-z0-9+/]{{1,1000}}={{0,2}}[ \t]*(?:{_BREAK})?"
_LONG = rf"[ \t]*[A-Za-z0-9+/]{{32,1000}}={{0,2}}[ \t]*{_BREAK}"
_LONGEST_LINE = 1100
_PUTTY = rf"(?P<kept>Private-Lines:[ \t]*[0-9]{{1,4}}[ \t]*{_BREAK}){_LINES}"
_PUTTY_MAC = r"(?P<kept>Private-MAC:[ \t]*)[0-9a-f]{40,64}"
#: The private numbers of a JSON web key.
_JSON_KEY = r"(?P<kept>\\{0,3}\"(?:d|p|q|dp|dq|qi|k)\\{0,3}\"\s{0,4}:\s{0,4}\\{0,3}\")[A-Za-z0-9_\-]{20,}"


def may_hold_private_key(glance: Glance) -> bool:
    """Return, fast, whether a text may hold anything to mask."""
    text = glance.text
    if "PRIVATE KEY" in text or "Private-" in text or '"kty' in text:
        return True
    if _body_heads().isdisjoint(glance.heads()):
        return False
    return pattern(_BODY).search(text) is not None or pattern(_encoded()).search(text) is not None


@cache
def _body_heads() -> frozenset[bytes]:
    """Return how the first word of a key in base64 may begin."""
    signs = (*string.ascii_letters, *string.digits, "")
    heads = {f"M{kind}{sign}" for kind in ("II", "IG", "IH") for sign in signs}
    heads |= {f"M{kind}{sign}C" for kind in "CDEFH" for sign in signs if sign}
    return frozenset(head.encode() for head in (*heads, "b3Bl", "LS0t"))


def mask_private_keys(text: str) -> tuple[str, int]:
    """Return the text with private keys masked, and how many there were."""
    found = 0
    if "PRIVATE KEY" in text:
        text, found = mask_spans(text, _blocks(text))
        text, more = mask_spans(text, _ends(text))
        found += more
    for mark, form in (("Private-Lines", _PUTTY), ("Private-MAC", _PUTTY_MAC), ('"kty', _JSON_KEY)):
        if mark in text:
            text, more = pattern(form).subn(rf"\g<kept>{MASK}", text)
            found += more
    if "LS0tL" in text:
        text, more = pattern(_encoded()).subn(MASK, text)
        found += more
    if any_in(_BODY_MARKS, text):
        text, more = pattern(_BODY).subn(MASK, text)
        found += more
    return text, found


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield key blocks from their first line to their last; one that was cut off, as far as it looks like a key."""
    at = 0
    any_end = True
    while begin := pattern(_BEGIN).search(text, at):
        end = pattern(_END).search(text, begin.end()) if any_end else None
        any_end = end is not None
        at = end.end() if end is not None else pattern(_KEY_TEXT).match(text, begin.end()).end()  # type: ignore[union-attr]
        yield begin.start(), at


def _ends(text: str) -> Iterator[tuple[int, int]]:
    """Yield keys whose beginning is missing: the last line, and the lines in base64 before it."""
    at = 0
    for end in pattern(_END).finditer(text):
        start = _start_of_lines(text, at, end.start())
        if start < end.start():
            at = end.end()
            yield start, at


def _start_of_lines(text: str, least: int, end: int) -> int:
    """Return where the lines in base64 before `end` begin; `end` if there are none."""
    start = end
    form = _SHORT
    while start > least:
        nearest = max(least, start - _LONGEST_LINE)
        # Without the break that ends this line.
        line = max(nearest, *(text.rfind(sign, nearest, start - 2) + len(sign) for sign in ("\n", "\\n")))
        if not pattern(form).fullmatch(text, line, start):
            break
        start, form = line, _LONG
    return start


@cache
def _encoded() -> str:
    """Return the form of a whole key file in base64, as Kubernetes and CI variables hold it."""
    kinds = ("", "RSA ", "EC ", "DSA ", "OPENSSH ", "ENCRYPTED ", "PGP ")
    # The last characters depend on what follows.
    starts = (b64encode(f"-----BEGIN {kind}PRIVATE KEY".encode()).decode().rstrip("=")[:-2] for kind in kinds)
    return f"(?:{'|'.join(starts)})[A-Za-z0-9+/=]{{16,}}"


# -- personal data: mail addresses, social security numbers, card numbers --

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
        numbers = filter(_has_check_digit, pattern(_CARD, re.ASCII).finditer(text))
        text, cards = mask_spans(text, (number.span() for number in numbers), PII_MASK)
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


def _has_check_digit(number: re.Match[str]) -> bool:
    """Return whether the check digit of a card number is right."""
    digits = [int(character) for character in reversed(number.group()) if character.isdigit()]
    doubled = (digit * 2 - 9 * (digit > 4) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0
