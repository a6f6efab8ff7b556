"""Mask secrets before anything is written: by key name, by known live value, and by pattern.

Redaction never changes what runs; it makes copies for whoever writes. Ids and times are never masked, because the lines
of a log are joined by them. A value that cannot be scrubbed is left out, not let through.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

MASK = "[REDACTED]"
DEFAULT_RULES = ("secrets", "pii-basic")

#: Fields that join records, in whatever depth they stand: never masked.
PROTECTED_KEYS = frozenset(
    """session_id parent_id trace_id turn_id span_id parent_span_id request_id tool_call_id sub_session_id
    parent_session_id parallel_group_id call_id message_id ts timestamp seq event schema lvl prev created
    last_updated duration_ms $blob $list base""".split()
)

#: Whole names, or the last words of a name, whose values are secrets: `api_key`, `OPENAI_API_KEY`, `db-password`.
_SECRET_NAME = re.compile(
    r"(?:^|[_\-. ])(?:api[_\-]?key|access[_\-]?key|secret[_\-]?key|private[_\-]?key|signing[_\-]?key|encryption[_\-]?key"
    r"|secret|client[_\-]?secret|password|passwd|passphrase|token|credentials?|auth|authorization|cookie|set[_\-]?cookie"
    r"|connection[_\-]?string|apikey|privatekey)$",
    re.IGNORECASE,
)
_LEAST_LIVE = 8

_SECRET_PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]*"),
    re.compile(r"\b(?:sk|pk|rk)-[A-Za-z0-9_\-]{16,}"),
    re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_\-]{16,})"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    re.compile(r"\bAIza[A-Za-z0-9_\-]{30,}"),
    re.compile(r"\bxox[abprs]-[A-Za-z0-9\-]{10,}"),
    re.compile(r"\b(?:hf|npm|pypi|dop_v1|shpat|sq0[a-z]{3})[_\-][A-Za-z0-9_\-]{16,}"),
)
#: Patterns with something to keep in front: group 1 stays, the rest is masked.
_LABELLED_PATTERNS = (
    re.compile(r"((?:\b[a-z][a-z0-9+.\-]*://)[^\s/:@]*:)[^\s/@]+(?=@)", re.IGNORECASE),
    re.compile(r"(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=\-]{8,}", re.IGNORECASE),
    re.compile(
        r"((?<![A-Za-z0-9])(?:[A-Za-z0-9_\-]*[_\-])?(?:api[_\-]?key|access[_\-]?key|secret|password|passwd|token|auth)"
        r"[\"']?\s*[=:]\s*[\"']?)[^\s\"'&,;(){}\[\]]{6,}",
        re.IGNORECASE,
    ),
)
_PII_PATTERNS = (
    re.compile(r"\b[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)*\.[A-Za-z]{2,}\b"),
    re.compile(r"\b\d{3}-\d{2}-\d{4}\b"),
)
_CARD = re.compile(r"(?<![\w.\-:])(?:\d[ \-]?){13,19}(?![\w.\-:])")
_TOO_DEEP = 200


class Scrubbed(NamedTuple):
    """A copy without secrets, and how often each rule found one."""

    value: Any
    applied: dict[str, int]


def is_secret_name(name: str) -> bool:
    """Tell whether a key of that name holds a secret."""
    return name not in PROTECTED_KEYS and _SECRET_NAME.search(name) is not None


def live_values_from_env(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables that are named like credentials and long enough to be one."""
    return [value for name, value in environ.items() if is_secret_name(name) and len(value) >= _LEAST_LIVE]


def live_values_from_plan(plan: Any) -> list[str]:
    """Return the strings that stand under secret names anywhere in a plan or config."""
    found: list[str] = []
    waiting = [plan]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            for key, item in value.items():
                if isinstance(item, str) and is_secret_name(str(key)) and len(item) >= _LEAST_LIVE:
                    found.append(item)
                else:
                    waiting.append(item)
        elif isinstance(value, (list, tuple)):
            waiting.extend(value)
    return found


class Redactor:
    """Mask secrets in copies of values; also a processor for `coordinator.add_log_processor`."""

    def __init__(
        self,
        live_values: Iterable[str] = (),
        allowlist: Iterable[str] = (),
        rules: Iterable[str] = DEFAULT_RULES,
    ) -> None:
        """Know the live secrets; `allowlist` names keys never masked, `rules` are of DEFAULT_RULES.

        Raises ValueError for an unknown rule: a rule that does nothing would be a leak.
        """
        self.rules = tuple(rules)
        unknown = [rule for rule in self.rules if rule not in DEFAULT_RULES]
        if unknown:
            raise ValueError(f"unknown redaction rules {unknown}; there are {list(DEFAULT_RULES)}")
        self._spared = PROTECTED_KEYS | frozenset(allowlist)
        self._live: set[str] = set()
        self._live_pattern: re.Pattern[str] | None = None
        self.add_live_values(live_values)

    def add_live_value(self, value: str) -> None:
        """Mask this value from now on, wherever it stands."""
        self.add_live_values([value])

    def add_live_values(self, values: Iterable[str]) -> None:
        """Mask these values from now on; short ones are left out, since they would mask ordinary words."""
        for value in values:
            if isinstance(value, str) and len(value.strip()) >= _LEAST_LIVE:
                self._live |= {value.strip(), quote(value.strip(), safe=""), quote(value.strip())}
        longest_first = sorted(self._live, key=lambda value: (-len(value), value))
        self._live_pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def scrub(self, value: Any) -> Scrubbed:
        """Return a copy of JSON-like data with every secret masked."""
        counts: Counter[str] = Counter()
        return Scrubbed(self._scrub(value, counts, 0), dict(counts))

    def scrub_text(self, text: str) -> str:
        """Return a text with every secret masked."""
        return self._text(text, Counter())

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a log record without secrets, saying what was masked; one that cannot be scrubbed loses its data."""
        try:
            scrubbed = self.scrub(record)
        except Exception:
            kept = {key: value for key, value in record.items() if key in PROTECTED_KEYS}
            return {**kept, "data": {}, "redaction": {"applied": False, "error": "scrub_failed"}}
        clean: dict[str, Any] = scrubbed.value
        if scrubbed.applied:
            before = record.get("redaction")
            known = before.get("counts", {}) if isinstance(before, dict) else {}
            counts = dict(Counter(known) + Counter(scrubbed.applied))
            clean["redaction"] = {"applied": True, "rules": sorted(counts), "counts": counts}
        return clean

    def _scrub(self, value: Any, counts: Counter[str], depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, counts)
        if depth > _TOO_DEEP:
            counts["depth"] += 1
            return MASK
        if isinstance(value, Mapping):
            return {self._key(key, counts): self._field(key, item, counts, depth) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._scrub(item, counts, depth + 1) for item in value]
        return value

    def _key(self, key: Any, counts: Counter[str]) -> Any:
        return self._text(key, counts) if isinstance(key, str) and key not in self._spared else key

    def _field(self, key: Any, item: Any, counts: Counter[str], depth: int) -> Any:
        if isinstance(key, str):
            if key in self._spared:
                return item if not isinstance(item, (Mapping, list, tuple)) else self._scrub(item, counts, depth + 1)
            if "secrets" in self.rules and _SECRET_NAME.search(key) and _may_be_secret(key, item):
                counts["key_name"] += item != MASK
                return MASK
        return self._scrub(item, counts, depth + 1)

    def _text(self, text: str, counts: Counter[str]) -> str:
        if self._live_pattern is not None:
            text, found = self._live_pattern.subn(MASK, text)
            counts["live_value"] += found
        if "secrets" in self.rules:
            for pattern in _SECRET_PATTERNS:
                text, found = pattern.subn(MASK, text)
                counts["pattern"] += found
            for pattern in _LABELLED_PATTERNS:
                text, found = pattern.subn(_keep_label, text)
                counts["pattern"] += found
        if "pii-basic" in self.rules:
            for pattern in _PII_PATTERNS:
                text, found = pattern.subn("[REDACTED:PII]", text)
                counts["pii"] += found
            text, found = _CARD.subn(_mask_card, text)
        for rule in [rule for rule, count in counts.items() if not count]:
            del counts[rule]
        return text


def _may_be_secret(key: str, item: Any) -> bool:
    """Tell whether a value under a secret name can be one: an empty value or a count of tokens is none."""
    if item is None or item == "" or isinstance(item, bool):
        return False
    return not (isinstance(item, (int, float)) and key.lower().rstrip("s").endswith("token"))


def _keep_label(match: re.Match[str]) -> str:
    label = match.group(1)
    return f"{label}{MASK}"


def _mask_card(match: re.Match[str]) -> str:
    digits = [int(character) for character in match.group() if character.isdigit()]
    doubled = [digit * 2 - 9 * (digit > 4) if index % 2 else digit for index, digit in enumerate(reversed(digits))]
    return "[REDACTED:PII]" if sum(doubled) % 10 == 0 else match.group()
