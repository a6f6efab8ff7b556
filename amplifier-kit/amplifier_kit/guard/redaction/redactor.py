"""Make copies without secrets: of any value, and of log records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from amplifier_kit.guard.redaction.field_names import (
    ID_KEYS,
    TIME_KEYS,
    is_id,
    is_schema,
    is_secret_header,
    is_secret_name,
    is_time,
    is_tool_call,
    may_be_secret,
)
from amplifier_kit.guard.redaction.known_values import LiveValues
from amplifier_kit.guard.redaction.label_values import Found
from amplifier_kit.guard.redaction.labels import announces_secret, flag_holds_secret, mask_labelled
from amplifier_kit.guard.redaction.personal_data import mask_pii, may_hold_pii
from amplifier_kit.guard.redaction.prefilter import MASK, Glance
from amplifier_kit.guard.redaction.token_search import mask_shapes, may_hold_shape

DEFAULT_RULES = ("secrets", "pii-basic")

#: What a log record is ordered and joined by; on its top level these are never looked into.
RECORD_KEYS = ID_KEYS | frozenset(("ts", "lvl", "schema", "event", "seq", "duration_ms", "dropped", "prev"))

#: Deeper data is left out: nothing that JSON can carry over a wire is nested like that.
_TOO_DEEP = 200
#: Masking may bring another secret to light, at most a few times in turn.
_MOST_PASSES = 10
_MOST_KEYS = 4096
_MOST_REMEMBERED = 4096
_LONGEST_REMEMBERED = 100
#: No shorter text holds anything to mask: `a@b.co`.
_SHORTEST = 6

_PLAIN, _ID, _CALL_ID, _TIME, _SECRET, _ALLOWED, _DIRTY = range(7)

#: Events that carry an answer in pieces, and the fields that hold the text of one.
_PIECES = ("_delta", ":delta")
_PIECE_KEYS = ("text", "delta", "content", "thinking", "partial_json", "arguments")

Text = Callable[[str], str]
Mask = Callable[[str], tuple[str, int]]

#: What the log calls the ways of masking; the remaining one goes by live values.
_RULE_OF: dict[Mask, str] = {mask_shapes: "pattern", mask_labelled: "pattern", mask_pii: "pii"}


class Scrubbed(NamedTuple):
    """A copy without secrets, and how often each rule found one."""

    value: Any
    applied: dict[str, int]


class Redactor:
    """Mask secrets in copies of values; also a processor for `coordinator.add_log_processor`.

    It masks values under secret names (`key_name`), known secrets (`live_value`), texts that look like secrets
    (`pattern`), and personal data (`pii`), but no ids and times: records are joined by them. Masking masked text
    changes nothing.
    """

    def __init__(
        self,
        live_values: Iterable[str] = (),
        allowlist: Iterable[str] = (),
        rules: Iterable[str] = DEFAULT_RULES,
    ) -> None:
        """Know the live secrets, which are masked under any rules; `rules` are of DEFAULT_RULES.

        `allowlist` names keys whose texts are masked for live secrets only. Raises ValueError for an unknown rule: a
        rule that does nothing would be a leak.
        """
        self.rules = tuple(rules)
        unknown = [rule for rule in self.rules if rule not in DEFAULT_RULES]
        if unknown:
            raise ValueError(f"unknown redaction rules {unknown}; there are {list(DEFAULT_RULES)}")
        self._secrets = "secrets" in self.rules
        self._allowed = frozenset(allowlist)
        self._live = LiveValues()
        self._masks: list[tuple[Mask, Callable[[Glance], bool]]] = [(self._live.mask, self._live.may_be_in)]
        if self._secrets:
            self._masks += [(mask_shapes, may_hold_shape), (mask_labelled, announces_secret)]
        if "pii-basic" in self.rules:
            self._masks += [(mask_pii, may_hold_pii)]
        #: Classified keys: the same ones recur in every record.
        self._kinds: dict[Any, int] = {}
        #: Texts that are known to hold no secret.
        self._clean: set[Any] = set()
        self.add_live_values(live_values)

    def add_live_value(self, value: str) -> None:
        """Mask this value from now on, wherever it stands."""
        self.add_live_values([value])

    def add_live_values(self, values: Iterable[str]) -> None:
        """Mask these values from now on; short ones are left out, since they would mask ordinary words."""
        self._live.add(values)
        self._kinds = {}
        self._clean = set()

    def scrub(self, value: Any) -> Scrubbed:
        """Return a copy of JSON-like data with every secret masked; other values become text.

        Raises nothing: a value that cannot be scrubbed is masked as a whole, and counted as `scrub_failed`.
        """
        counts: Counter[str] = Counter()
        try:
            return Scrubbed(self._scrub(value, counts), dict(counts))
        except Exception:
            return Scrubbed(MASK, {"scrub_failed": 1})

    def scrub_text(self, text: str) -> str:
        """Return a text with every secret masked."""
        return str(self.scrub(text).value)

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        """Mask a log record and note the applied rules in it; a record that cannot be scrubbed loses its data."""
        counts: Counter[str] = Counter()
        try:
            rest = {key: item for key, item in record.items() if key not in RECORD_KEYS and key != "redaction"}
            if str(record.get("event")).endswith(_PIECES):
                rest["data"] = _without_pieces(rest.get("data"), counts)
            scrubbed = self._scrub(rest, counts)
            clean = {key: scrubbed.pop(key, item) for key, item in record.items() if key in scrubbed or key not in rest}
            clean.update(scrubbed)
        except Exception:
            return _without_data(record)
        if counts:
            clean["redaction"] = _with_earlier(record.get("redaction"), counts)
        return clean

    # -- from here on, data is walked through --

    def _scrub(self, value: Any, counts: Counter[str]) -> Any:
        texts: list[str] = []
        clean = self._clean

        def collect(text: str) -> str:
            if len(text) >= _SHORTEST and _token(text) not in clean:
                texts.append(text)
            return text

        copy = _Walk(self, collect, counts).copy(value)
        # Most records hold nothing to mask: one look at all their texts together tells.
        masks = self._worth_trying("\n".join(texts)) if texts else ()
        if masks:
            copy = _Walk(self, lambda text: self._masked(text, masks, counts), Counter()).copy(copy)
        else:
            self._remember(texts)
        return copy

    def _remember(self, texts: Iterable[str]) -> None:
        """Remember texts without secrets: names and paths come again on many lines, messages in every request."""
        if len(self._clean) > _MOST_REMEMBERED:
            self._clean.clear()
        self._clean.update(map(_token, texts))

    def _worth_trying(self, text: str) -> tuple[Mask, ...]:
        """Return the ways of masking that might find something in a text; by words that must be there, so fast."""
        glance = Glance(text)
        return tuple(mask for mask, may_find in self._masks if may_find(glance))

    def _masked(self, text: str, masks: Iterable[Mask], counts: Counter[str]) -> str:
        """Return a text with all secrets masked; again and again, until there is nothing left to mask."""
        if len(text) < _SHORTEST or _token(text) in self._clean:
            return text
        given = text
        for _ in range(_MOST_PASSES):
            before = text
            for mask in masks:
                text, found = mask(text)
                if found:
                    counts[_RULE_OF.get(mask, "live_value")] += found
            if text == before:
                if text == given:
                    self._remember([text])
                return text
            # A mask may have covered the beginning of another secret.
            masks = [mask for mask, _ in self._masks]
        return MASK

    def _kind(self, key: Any) -> int:
        if type(key) is not str:
            return _DIRTY
        kind = self._classified(key)
        if len(self._kinds) >= _MOST_KEYS:
            self._kinds = {}
        self._kinds[key] = kind
        return kind

    def _classified(self, key: str) -> int:
        if key in ID_KEYS:
            return _ID
        if key == "id":
            return _CALL_ID
        if key in TIME_KEYS:
            return _TIME
        if self._masked(key, self._worth_trying(key), Counter()) != key:
            return _DIRTY
        if key in self._allowed:
            return _ALLOWED
        return _SECRET if self._secrets and is_secret_name(key) else _PLAIN


class _Walk:
    """Copy data once, all the way down, with every text passed through `text`."""

    def __init__(self, redactor: Redactor, text: Text, counts: Counter[str]) -> None:
        self._redactor = redactor
        self._text = text
        self._counts = counts
        self._kinds = redactor._kinds
        self._path: set[int] = set()

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind is dict or isinstance(value, Mapping):
            return self._inside(value, self._mapping)
        if kind is list or kind is tuple or isinstance(value, (list, tuple, set, frozenset)):
            return self._inside(value, self._items)
        return self._scalar(value)

    def _inside(self, value: Any, copy: Callable[[Any], Any]) -> Any:
        mine = id(value)
        if mine in self._path or len(self._path) > _TOO_DEEP:
            _count(self._counts, "depth", 1)
            return MASK
        self._path.add(mine)
        copied = copy(value)
        self._path.discard(mine)
        return copied

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        fields: dict[Any, Any] = {}
        for key, item in value.items():
            kind = self._kinds.get(key) if type(key) is str else _DIRTY
            if kind is None:
                kind = self._redactor._kind(key)
            if kind == _PLAIN:
                fields[key] = self._text(item) if type(item) is str else self.copy(item)
            elif kind == _DIRTY:
                fields[_free(self._dirty_key(key), fields)] = self._under_dirty(key, item)
            else:
                fields[key] = self._special(kind, key, item, value)
        if "value" in value:
            self._pair(value, fields)
        return fields

    def _under_dirty(self, key: Any, item: Any) -> Any:
        secret = self._redactor._secrets and type(key) is str and is_secret_name(key) and may_be_secret(key, item)
        return self._blank(item) if secret else self.copy(item)

    def _special(self, kind: int, key: str, item: Any, around: Mapping[Any, Any]) -> Any:
        if kind == _TIME and is_time(item):
            return item
        if (kind == _ID or (kind == _CALL_ID and is_tool_call(around))) and is_id(item):
            return item
        if kind == _SECRET and may_be_secret(key, item):
            return self._blank(item)
        if kind == _ALLOWED and isinstance(item, str):
            text, found = self._redactor._live.mask(item)
            _count(self._counts, "live_value", found)
            return text
        return self.copy(item)

    def _pair(self, value: Mapping[Any, Any], fields: dict[Any, Any]) -> None:
        """Mask the value of `{"name": "api_key", "value": ...}`."""
        for key in ("name", "key"):
            name = value.get(key)
            if isinstance(name, str) and self._redactor._secrets and name not in self._redactor._allowed:
                if is_secret_name(name) and may_be_secret(name, value["value"]):
                    fields["value"] = self._blank(value["value"])
                return

    def _items(self, value: Iterable[Any]) -> list[Any]:
        items = [self._text(item) if type(item) is str else self.copy(item) for item in value]
        if len(items) == 2 and self._redactor._secrets and is_secret_header(items[0]) and isinstance(items[1], str):
            items[1] = self._blank(items[1])
        elif self._redactor._secrets and len(items) > 1:
            self._arguments(items)
        return items

    def _arguments(self, items: list[Any]) -> None:
        """Mask the second of `["--password", ...]`, as the arguments of a program are listed."""
        for at, flag in enumerate(items[:-1]):
            value = items[at + 1]
            if type(flag) is not str or not flag.startswith("--") or type(value) is not str or value.startswith("-"):
                continue
            if flag_holds_secret(Found(flag, " ", value, quoted=False, after="")):
                items[at + 1] = self._blank(value)

    def _blank(self, value: Any) -> Any:
        """Mask everything in a value, and keep its structure."""
        if isinstance(value, Mapping) and not is_schema(value):
            return self._inside(value, self._blank_mapping)
        if isinstance(value, (list, tuple)):
            return self._inside(value, lambda items: [self._blank(item) for item in items])
        if value is None or isinstance(value, bool) or value == "" or value == MASK:
            return value
        _count(self._counts, "key_name", 1)
        return MASK

    def _blank_mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        fields: dict[Any, Any] = {}
        for key, item in value.items():
            spared = (key in ID_KEYS and is_id(item)) or (key in TIME_KEYS and is_time(item))
            fields[_free(self._dirty_key(key), fields)] = item if spared else self._blank(item)
        return fields

    def _dirty_key(self, key: Any) -> Any:
        return self._text(key) if type(key) is str else self._scalar(key)

    def _scalar(self, value: Any) -> Any:
        if value is None or value is True or value is False:
            return value
        if isinstance(value, (int, float)):
            if self._redactor._live.found_in_number(value):
                _count(self._counts, "live_value", 1)
                return MASK
            return value
        return self._text(_as_text(value))


def _token(text: str) -> Any:
    """Return what a text is remembered by: itself, or for a long one its length and hash."""
    return text if len(text) <= _LONGEST_REMEMBERED else (len(text), hash(text))


def _as_text(value: Any) -> str:
    if isinstance(value, (bytes, bytearray)):
        return value.decode("utf-8", "replace")
    try:
        return str(value)
    except Exception:
        return MASK  # its type's own code failed


def _free(key: Any, fields: Mapping[Any, Any]) -> Any:
    """Return a key that is not taken: two masked keys must not become one."""
    free, number = key, 1
    while free in fields:
        number += 1
        free = f"{key} {number}"
    return free


def _count(counts: Counter[str], rule: str, found: int) -> None:
    if found:
        counts[rule] += found


def _without_pieces(data: Any, counts: Counter[str]) -> Any:
    """Mask all text of a streamed piece: a part of a secret cannot be recognised as one."""
    if not isinstance(data, Mapping):
        return data
    pieces = [key for key in _PIECE_KEYS if isinstance(data.get(key), str) and data[key] != MASK]
    _count(counts, "stream_piece", len(pieces))
    return {**data, **dict.fromkeys(pieces, MASK)}


def _with_earlier(earlier: Any, counts: Counter[str]) -> dict[str, Any]:
    known = earlier.get("counts") if isinstance(earlier, dict) else None
    total = Counter(known if isinstance(known, dict) else {}) + counts
    return {"applied": True, "rules": sorted(total), "counts": dict(total)}


def _without_data(record: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        key: item
        for key, item in record.items()
        if key in RECORD_KEYS and (key == "schema" or isinstance(item, (str, int, float)))
    }
    return {**kept, "data": {}, "redaction": {"applied": False, "error": "scrub_failed"}}
