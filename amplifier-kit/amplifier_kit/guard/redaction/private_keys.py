"""Mask private keys: whole, cut off at either end, without their markers, and as PuTTY, JSON and base64 hold them."""

from __future__ import annotations

import string
from base64 import b64encode
from functools import cache
from typing import Final

from amplifier_kit.guard.redaction.prefilter import MASK, Glance, any_in, pattern

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
        text, found = _mask_blocks(text)
        text, more = _mask_ends(text)
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


def _mask_blocks(text: str) -> tuple[str, int]:
    """Mask key blocks from their first line to their last; one that was cut off, as far as it looks like a key."""
    kept: list[str] = []
    at = 0
    found = 0
    any_end = True
    while begin := pattern(_BEGIN).search(text, at):
        end = pattern(_END).search(text, begin.end()) if any_end else None
        any_end = end is not None
        stop = end.end() if end is not None else pattern(_KEY_TEXT).match(text, begin.end()).end()  # type: ignore[union-attr]
        kept += (text[at : begin.start()], MASK)
        at = stop
        found += 1
    return "".join((*kept, text[at:])), found


def _mask_ends(text: str) -> tuple[str, int]:
    """Mask keys whose beginning is missing: the last line, and the lines in base64 before it."""
    kept: list[str] = []
    at = 0
    for end in pattern(_END).finditer(text):
        start = _start_of_lines(text, at, end.start())
        if start < end.start():
            kept += (text[at:start], MASK)
            at = end.end()
    return "".join((*kept, text[at:])), len(kept) // 2


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
