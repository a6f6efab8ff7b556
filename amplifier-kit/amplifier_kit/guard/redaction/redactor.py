"""Make copies without secrets: of any value, and of log records; and the redactor that all of a process shares."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from itertools import pairwise, repeat
from typing import Any, Final

from amplifier_kit.guard.private_files import secret_sources
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
from amplifier_kit.guard.redaction.formats import mask_pii, mask_tokens, may_hold_pii, may_hold_token
from amplifier_kit.guard.redaction.known_values import LiveValues, live_values_from_env
from amplifier_kit.guard.redaction.labels import Found, announces_secret, flag_holds_secret, mask_labelled
from amplifier_kit.guard.redaction.prefilter import MASK, Glance
from amplifier_kit.named_tuple import NamedTuple

DEFAULT_RULES = ("secrets", "pii-basic")

#: The fields that order and join log records; on the top level they are never masked.
RECORD_KEYS = ID_KEYS | frozenset(("ts", "lvl", "schema", "event", "seq", "duration_ms", "dropped", "prev"))
_NOT_SCRUBBED = RECORD_KEYS | {"redaction"}

#: Deeper data is left out: nothing that JSON can carry over a wire is nested like that.
_MAX_DEPTH = 200
#: Masking may reveal another secret, at most a few times in turn.
_MAX_PASSES = 10
_MAX_KEYS = 4096
_MAX_CLEAN_TEXTS = 4096
#: Longer texts are remembered by their length and hash.
_LONGEST_REMEMBERED = 100
#: No shorter text holds anything to mask: `a@b.co`.
_SHORTEST = 6

#: What the key of a field says about its value; up to _TIME, the value is spared when it has the form that fits.
_PLAIN, _ID, _CALL_ID, _TIME, _SECRET, _ALLOWED, _DIRTY = range(7)

#: All else becomes text.
_KNOWN_TYPES = (str, int, float, type(None), Mapping, list, tuple, set, frozenset)

#: Events that carry an answer in pieces, and the fields that hold the text of one.
_PIECES = ("_delta", ":delta")
_PIECE_KEYS = ("text", "delta", "content", "thinking", "partial_json", "arguments")

Mask = Callable[[str], tuple[str, int]]
Counts = dict[str, int]

#: How the log names the ways of masking; the remaining one goes by live values.
_RULE_OF: dict[Mask, str] = {mask_tokens: "pattern", mask_labelled: "pattern", mask_pii: "pii"}


class Scrubbed(NamedTuple):
    """A copy without secrets, and how often each rule found one."""

    value: Any
    applied: Counts


class Redactor:
    """Mask secrets in copies of values; also a processor for `coordinator.add_log_processor`.

    It masks values under secret names (`key_name`), known secrets (`live_value`), texts that look like secrets
    (`pattern`), and personal data (`pii`), but no ids and times: records are joined by them. Masking masked text
    changes nothing.

    Most data holds nothing to mask. So `_inspect` goes through it first, copying nothing, and one glance at all its
    texts together decides whether `_Masker` has to copy it.
    """

    def __init__(
        self,
        live_values: Iterable[str] = (),
        allowlist: Iterable[str] = (),
        rules: Iterable[str] = DEFAULT_RULES,
    ) -> None:
        """Mask the live secrets under any rules; `rules` are of DEFAULT_RULES.

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
            self._masks += [(mask_tokens, may_hold_token), (mask_labelled, announces_secret)]
        if "pii-basic" in self.rules:
            self._masks += [(mask_pii, may_hold_pii)]
        #: Classified keys: the same ones recur in every record.
        self._kinds: dict[Any, int] = {}
        #: Texts without secrets: names and paths recur on many lines, messages in every request.
        self._clean: set[Any] = set()
        self.add_live_values(live_values)

    def add_live_value(self, value: str) -> None:
        """Mask this value everywhere from now on."""
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
        counts: Counts = {}
        try:
            clean = self._scrub(value, counts)
            return Scrubbed(deepcopy(value) if clean is value else clean, counts)
        except Exception:
            return Scrubbed(MASK, {"scrub_failed": 1})

    def scrub_text(self, text: str) -> str:
        """Return a text with every secret masked."""
        return str(self.scrub(text).value)

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        """Return a log record without secrets, with the applied rules noted in it; the record itself if it has none.

        A record that cannot be scrubbed loses its data.
        """
        counts: Counts = {}
        try:
            fields = {key: item for key, item in record.items() if key not in _NOT_SCRUBBED}
            if str(record.get("event")).endswith(_PIECES):
                fields["data"] = _without_pieces(fields.get("data"), counts)
            scrubbed = self._scrub(fields, counts)
            if scrubbed is fields and not counts:
                return record
            clean = {
                key: scrubbed.pop(key, item) for key, item in record.items() if key in scrubbed or key in _NOT_SCRUBBED
            }
            clean.update(scrubbed)  # fields whose names were masked
        except Exception:
            return without_data(record)
        if counts:
            clean["redaction"] = _with_earlier(record.get("redaction"), counts)
        return clean

    def _scrub(self, value: Any, counts: Counts) -> Any:
        """Return a copy with every secret masked, or `value` itself when it is JSON without any."""
        texts: list[str] = []
        try:
            is_plain = self._inspect(value if type(value) is dict else [value], texts, 0)
        except (_NotJson, RecursionError):
            return _Masker(self, [mask for mask, _ in self._masks], counts).copy(value)
        masks = self._worth_trying("\n".join(texts)) if texts else []
        if not masks:
            self._remember(texts)
            if is_plain:
                return value
        return _Masker(self, masks, counts).copy(value)

    def _inspect(self, value: Any, texts: list[str], depth: int) -> bool:
        """Collect the texts of a dict or list that are not known to be clean; return whether all else needs no masking.

        Raises _NotJson for data that is not JSON, or nested too deeply.
        """
        # Written out rather than split up: every event of every session passes here.
        if depth > _MAX_DEPTH:
            raise _NotJson
        kinds, clean = self._kinds, self._clean
        is_plain = True
        # An item of a list is treated like a field without a name.
        for key, item in value.items() if type(value) is dict else zip(repeat(""), value):
            kind = kinds.get(key)
            if kind is None:
                kind = self._classify(key)
            if kind:
                if kind == _DIRTY:
                    texts.append(key)
                elif kind <= _TIME and _is_spared(kind, item, value):
                    continue
                if kind > _TIME:
                    is_plain = False
            sort = type(item)
            if sort is str:
                if item not in clean and len(item) >= _SHORTEST and _token(item) not in clean:
                    texts.append(item)
            elif sort is dict or sort is list:
                if not self._inspect(item, texts, depth + 1):
                    is_plain = False
            elif sort is int or sort is float:
                if self._live.numbers:
                    is_plain = False
            elif sort is not bool and item is not None:
                raise _NotJson
        if is_plain and self._secrets:
            return not (self._names_secret(value) if type(value) is dict else _secret_items(value))
        return is_plain

    def _names_secret(self, fields: Mapping[Any, Any]) -> bool:
        """Return whether this is `{"name": "api_key", "value": ...}`."""
        if "value" in fields and self._secrets:
            for key in ("name", "key"):
                given = fields.get(key)
                if isinstance(given, (str, bytes)) and (name := _name_of(given)) not in self._allowed:
                    return is_secret_name(name) and may_be_secret(name, fields["value"])
        return False

    def _remember(self, texts: Iterable[str]) -> None:
        if len(self._clean) > _MAX_CLEAN_TEXTS:
            self._clean.clear()
        self._clean.update(map(_token, texts))

    def _worth_trying(self, text: str) -> list[Mask]:
        """Return the ways of masking that may find something in a text, by a fast search for words they need."""
        glance = Glance(text)
        return [mask for mask, may_find in self._masks if may_find(glance)]

    def _masked(self, text: str, masks: Sequence[Mask], counts: Counts) -> str:
        """Return a text with all secrets masked; repeats until there is nothing left to mask."""
        if not masks or len(text) < _SHORTEST or _token(text) in self._clean:
            return text
        given = text
        for _ in range(_MAX_PASSES):
            before = text
            for mask in masks:
                text, found = mask(text)
                _count(counts, _RULE_OF.get(mask, "live_value"), found)
            if text == before:
                if text == given:
                    self._remember([text])
                return text
            # A mask may have covered the beginning of another secret.
            masks = [mask for mask, _ in self._masks]
        return MASK

    def _classify(self, key: Any) -> int:
        """Return what a key says about its value, and remember it; raise _NotJson for a key that is not a text."""
        if len(self._kinds) >= _MAX_KEYS:
            self._kinds.clear()
        if type(key) is not str:
            raise _NotJson
        if key in ID_KEYS:
            kind = _ID
        elif key == "id":
            kind = _CALL_ID
        elif key in TIME_KEYS:
            kind = _TIME
        elif self._masked(key, self._worth_trying(key), {}) != key:
            kind = _DIRTY
        elif key in self._allowed:
            kind = _ALLOWED
        else:
            kind = _SECRET if self._secrets and is_secret_name(key) else _PLAIN
        self._kinds[key] = kind
        return kind


class _NotJson(Exception):
    """Data cannot be written as JSON."""


class _Masker:
    """Copy data once, all the way down, with every secret masked."""

    def __init__(self, redactor: Redactor, masks: Sequence[Mask], counts: Counts) -> None:
        self._redactor = redactor
        self._masks = masks
        self._counts = counts
        self._path: set[int] = set()

    def copy(self, value: Any) -> Any:
        if type(value) is str:
            return self._text(value)
        if isinstance(value, Mapping):
            return self._inside(value, self._mapping)
        if isinstance(value, (list, tuple, set, frozenset)):
            return self._inside(value, self._items)
        return self._scalar(value)

    def _text(self, text: str) -> str:
        return self._redactor._masked(text, self._masks, self._counts)

    def _inside(self, value: Any, copy: Callable[[Any], Any]) -> Any:
        mine = id(value)
        if mine in self._path or len(self._path) > _MAX_DEPTH:
            _count(self._counts, "depth", 1)
            return MASK
        self._path.add(mine)
        copied = copy(value)
        self._path.discard(mine)
        return copied

    def _mapping(self, value: Mapping[Any, Any]) -> dict[Any, Any]:
        fields: dict[Any, Any] = {}
        kinds = self._redactor._kinds
        names_secret = self._redactor._names_secret({_name_of(key): item for key, item in value.items()})
        for key, item in value.items():
            name = _name_of(key)
            kind = kinds.get(name)
            if kind is None:
                kind = self._redactor._classify(name)
            copied_key = _free(self._masked_key(key), fields) if kind == _DIRTY or type(key) is not str else key
            if kind == _DIRTY and self._redactor._secrets and is_secret_name(name):
                kind = _SECRET
            if names_secret and name == "value":
                fields[copied_key] = self._blank(item)
            else:
                fields[copied_key] = self._field(kind, name, item, value)
        return fields

    def _field(self, kind: int, key: str, item: Any, around: Mapping[Any, Any]) -> Any:
        if _PLAIN < kind <= _TIME and _is_spared(kind, item, around):
            return item
        if kind == _SECRET and may_be_secret(key, item):
            return self._blank(item)
        if kind == _ALLOWED and isinstance(item, str):
            text, found = self._redactor._live.mask(item)
            _count(self._counts, "live_value", found)
            return text
        return self.copy(item)

    def _items(self, value: Iterable[Any]) -> list[Any]:
        items = [item if isinstance(item, _KNOWN_TYPES) else _as_text(item) for item in value]
        secret = _secret_items(items) if self._redactor._secrets else ()
        return [self._blank(item) if at in secret else self.copy(item) for at, item in enumerate(items)]

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
            fields[_free(self._masked_key(key), fields)] = item if spared else self._blank(item)
        return fields

    def _masked_key(self, key: Any) -> Any:
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


def _is_spared(kind: int, value: Any, around: Mapping[Any, Any]) -> bool:
    """Return whether a value under the key of an id or time has the form of one."""
    if kind == _TIME:
        return is_time(value)
    return (kind == _ID or is_tool_call(around)) and is_id(value)


def _secret_items(items: list[Any]) -> set[int]:
    """Return the indexes of secrets in `["Authorization", ...]` and in arguments such as `["--password", ...]`."""
    if len(items) == 2 and is_secret_header(items[0]) and isinstance(items[1], str):
        return {1}
    found = set()
    for at, (flag, value) in enumerate(pairwise(items), 1):
        if not isinstance(flag, str) or not flag.startswith("--"):
            continue
        if not isinstance(value, str) or value.startswith("-"):
            continue
        if flag_holds_secret(Found(flag, " ", value, quoted=False, after="")):
            found.add(at)
    return found


def _token(text: str) -> Any:
    """Return the text, or the length and hash of a long one."""
    return text if len(text) <= _LONGEST_REMEMBERED else (len(text), hash(text))


def _name_of(key: Any) -> str:
    """Return the name of a key of any type; members of a `str` enum are written otherwise by `str`."""
    if type(key) is str:
        return key
    return str.__str__(key) if isinstance(key, str) else _as_text(key)


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


def _count(counts: Counts, rule: str, found: int) -> None:
    if found:
        counts[rule] = counts.get(rule, 0) + found


def _without_pieces(data: Any, counts: Counts) -> Any:
    """Mask all text of a streamed piece: a part of a secret cannot be recognised as one."""
    if not isinstance(data, Mapping):
        return data
    pieces = [key for key in _PIECE_KEYS if isinstance(data.get(key), str) and data[key] != MASK]
    _count(counts, "stream_piece", len(pieces))
    return {**data, **dict.fromkeys(pieces, MASK)}


def _with_earlier(earlier: Any, counts: Counts) -> dict[str, Any]:
    known = earlier.get("counts") if isinstance(earlier, dict) else None
    total = Counter(known if isinstance(known, dict) else {}) + Counter(counts)
    return {"applied": True, "rules": sorted(total), "counts": dict(total)}


def without_data(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is left of a log record that cannot be scrubbed: its ids, times and names."""
    kept = {
        key: item
        for key, item in record.items()
        if key in RECORD_KEYS and (key == "schema" or isinstance(item, (str, int, float)))
    }
    return {**kept, "data": {}, "redaction": {"applied": False, "error": "scrub_failed"}}


# -- the redactor of this process --
#
# A file may be written by a module, a session or the program itself, and a secret of one must not reach a file of
# another, so they share one redactor. It masks secrets; personal data is the log's concern.

#: How many values are remembered at most; the newest are kept.
_MOST: Final = 2000

_lock: Final = threading.RLock()
_known: dict[str, None] = {}
_key_names: set[str] = set()
_environ: tuple[tuple[str, str], ...] = ()
_redactor: Redactor | None = None


def remember_secrets(values: Iterable[str]) -> None:
    """Mask these values, from now on, in every file that this process writes."""
    global _redactor
    with _lock:
        fresh = [value for value in dict.fromkeys(values) if isinstance(value, str) and value not in _known]
        if not fresh:
            return
        _known.update(dict.fromkeys(fresh))
        while len(_known) > _MOST:
            del _known[next(iter(_known))]
        if _redactor is not None:
            _redactor.add_live_values(fresh)


def known_secrets() -> tuple[str, ...]:
    """Return what `remember_secrets` was given."""
    return tuple(_known)


def remember_keys(names: Iterable[str]) -> None:
    """Treat these environment variables as the user's keys: no command inherits one of them, whatever its name."""
    with _lock:
        _key_names.update(names)


def known_keys() -> frozenset[str]:
    """Return the names that `remember_keys` was given."""
    with _lock:
        return frozenset(_key_names)


def process_redactor() -> Redactor:
    """Return the redactor for files; it knows the environment as it is now."""
    global _environ, _redactor
    with _lock:
        environ = tuple(os.environ.items())
        if _redactor is None:
            for find in secret_sources:
                _known.update(dict.fromkeys(find()))
            _redactor = Redactor((*_known, *live_values_from_env(os.environ)), rules=("secrets",))
        elif environ != _environ:
            _redactor.add_live_values(live_values_from_env(os.environ))
        _environ = environ
        return _redactor
