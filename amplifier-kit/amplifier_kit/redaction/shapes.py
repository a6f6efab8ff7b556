"""Secrets that give themselves away by their form: the tokens of known services, private keys, signed web tokens."""

from __future__ import annotations

from typing import Final

from amplifier_kit.redaction.glance import VERY_LONG, Glance, any_in
from amplifier_kit.redaction.lazy import pattern
from amplifier_kit.redaction.mask import MASK

#: Not inside a word. Text that was escaped once more has `\n` for a line break, and its `n` is no part of a word.
_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"
_ALONE = r"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrt]))"

#: What a token of one kind must contain, and its form. The first is looked for before the second is tried, and only in
#: words of at least 15 characters (VERY_LONG): no form may be shorter.
_SHAPES: Final = (
    # A digit, or a long run without a hyphen, tells a key from a name such as `sk-text-repr-fallback`.
    (("sk-", "pk-", "rk-"), _START + r"[spr]k-(?=[A-Za-z_\-]{0,80}[0-9]|[A-Za-z0-9]{20})[A-Za-z0-9_\-]{16,}"),
    (("_live_", "_test_"), _START + r"[spr]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    (("whsec_",), r"whsec_[A-Za-z0-9+/=]{16,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}"),
    (("github_pat_",), r"github_pat_[A-Za-z0-9_]{20,}"),
    (("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-"), _START + r"gl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_\-]{16,}"),
    (
        ("AKIA", "ASIA", "ABIA"),
        r"(?<![A-Za-z0-9+/])A[KSB]IA[A-Z0-9]{16}(?![A-Za-z0-9])|(?<=\\[nrt])A[KS]IA[A-Z0-9]{16}",
    ),
    (("AIza",), r"AIza[A-Za-z0-9_\-]{30,}"),
    (("ya29.", "GOCSPX-"), _START + r"(?:ya29\.|GOCSPX-)[A-Za-z0-9_\-]{16,}"),
    (("xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"), r"xox[abeoprs]-[A-Za-z0-9\-]{10,}"),
    (("xapp-",), r"xapp-[0-9]-[A-Za-z0-9\-]{10,}"),
    (("hf_", "gsk_", "r8_", "npm_"), _START + r"(?:hf|gsk|r8|npm)_[A-Za-z0-9]{20,}"),
    (
        ("xai-", "pplx-", "tvly-", "nvapi-"),
        _START + r"(?:xai|pplx|tvly|nvapi)-(?=[A-Za-z_\-]{0,80}[0-9])[A-Za-z0-9_\-]{20,}",
    ),
    (("pypi-", "dckr_pat_", "lin_api_"), _START + r"(?:pypi-|dckr_pat_|lin_api_)[A-Za-z0-9_\-]{20,}"),
    (("dop_v1_", "doo_v1_"), r"do[op]_v1_[a-f0-9]{32,}"),
    (("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{24,}"),
    (("sq0",), _START + r"sq0[a-z]{3}-[A-Za-z0-9_\-]{20,}"),
    (("hvs.", "hvb."), _START + r"hv[sb]\.[A-Za-z0-9_\-]{20,}"),
    (("SG.",), _START + r"SG\.[A-Za-z0-9_\-]{16,64}\.[A-Za-z0-9_\-]{16,}"),
    (("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{40,}"),
    (("ATATT3",), _START + r"ATATT3[A-Za-z0-9_\-=]{40,}"),
    (("hooks.slack.com/",), r"(?<=hooks\.slack\.com/services/)[A-Za-z0-9/]{16,}"),
    (("eyJ",), _ALONE + r"eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*"),
)
_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
#: What may follow the first line of a key whose last line was cut off.
_KEY_TEXT = r"(?:[A-Za-z0-9+/=\s]|\\[nr])*"


_ANCHORS: Final = tuple(anchor for anchors, _ in _SHAPES for anchor in anchors)


def may_hold_shape(glance: Glance) -> bool:
    """Tell, fast, whether it is worth looking closer."""
    words = glance.long_words(VERY_LONG)
    return (bool(words) and any_in(_ANCHORS, words)) or "PRIVATE KEY" in glance.text


def mask_shapes(text: str) -> tuple[str, int]:
    """Return the text without secrets that have a known form, and how many there were."""
    found = 0
    words = Glance(text).long_words(VERY_LONG)
    for anchors, form in _SHAPES:
        if any_in(anchors, words):
            text, count = pattern(form).subn(MASK, text)
            found += count
    if "PRIVATE KEY" in text:
        text, count = _mask_private_keys(text)
        found += count
    return text, found


def _mask_private_keys(text: str) -> tuple[str, int]:
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
