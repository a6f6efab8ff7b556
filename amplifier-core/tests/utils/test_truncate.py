"""Shortening and redaction, also of data made to break them."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import utils
from amplifier_core.utils.truncate import SENSITIVE_KEYS, redact_secrets, truncate_values

REDACTED = "[REDACTED]"


class TestTruncate:
    def test_long_strings(self) -> None:
        """A string beyond the limit keeps its head and says how much is gone."""
        assert truncate_values("a" * 180) == "a" * 180
        assert truncate_values("a" * 181) == "a" * 180 + "... (truncated 1 chars)"
        assert truncate_values("abc", max_length=1) == "a... (truncated 2 chars)"
        assert truncate_values("abc", 0) == "... (truncated 3 chars)"

    def test_negative_limit(self) -> None:
        """A negative limit counts as none at all."""
        assert truncate_values("abc", -1) == "... (truncated 3 chars)"

    def test_nested(self) -> None:
        """Dicts, lists and tuples are followed; keys and other values stay."""
        given_data = {
            "key longer than limit": ["abcdef", {"x": ("abcdef", 1)}],
            7: None,
            "b": b"abcdef",
            "s": {"abcdef"},
        }
        assert truncate_values(given_data, 3) == {
            "key longer than limit": [
                "abc... (truncated 3 chars)",
                {"x": ("abc... (truncated 3 chars)", 1)},
            ],
            7: None,
            "b": b"abcdef",
            "s": {"abcdef"},
        }


class TestRedact:
    @pytest.mark.parametrize("value", ["v", "", None, 0, ["v"], {"v": "v"}])
    def test_any_value(self, value: Any) -> None:
        """The value of a sensitive key is replaced whatever it is."""
        assert redact_secrets({"apiKey": value}) == {"apiKey": REDACTED}

    @pytest.mark.parametrize(
        "key",
        [
            "tokens",
            "input_tokens",
            "author",
            "access_token",
            "session_id",
            " token ",
            "",
            1,
            None,
            b"token",
            ("token",),
        ],
    )
    def test_other_keys(self, key: Any) -> None:
        """A key must equal a sensitive one; one that contains it, or is no string, is untouched."""
        assert redact_secrets({key: "v"}) == {key: "v"}

    def test_nested(self) -> None:
        """Dicts, lists, tuples and read-only mappings are followed."""
        data = {"a": [{"token": "x"}, ({"secret": "y"},)], "m": MappingProxyType({"password": "z"})}
        assert redact_secrets(data) == {
            "a": [{"token": REDACTED}, ({"secret": REDACTED},)],
            "m": {"password": REDACTED},
        }

    def test_own_keys(self) -> None:
        """The keys can be chosen, in lower case."""
        assert redact_secrets({"Pin": 1, "token": 2}, {"pin"}) == {"Pin": REDACTED, "token": 2}
        assert redact_secrets({"token": 2}, sensitive_keys=frozenset()) == {"token": 2}

    def test_plain_values(self) -> None:
        """What is no container comes back as itself."""
        thing = object()
        assert redact_secrets(thing) is thing
        assert redact_secrets("token") == "token"
        assert redact_secrets([thing])[0] is thing


@pytest.mark.parametrize("function", [redact_secrets, truncate_values])
class TestHostileInput:
    def test_self_containing_list(self, function: Callable[..., Any]) -> None:
        """A list inside itself is marked, not followed."""
        data: list[Any] = [1]
        data.append(data)
        assert function(data) == [1, "[CIRCULAR]"]

    def test_cycle_through_every_container(self, function: Callable[..., Any]) -> None:
        """A cycle through dict, tuple and list ends where it closes, and the copy is JSON-able."""
        inner: list[Any] = []
        data = {"tuple": (inner,)}
        inner.append(data)
        copied = function(data)
        assert copied == {"tuple": (["[CIRCULAR]"],)}
        json.dumps(copied)

    def test_cycle_is_cut_where_reading_order_meets_it(self, function: Callable[..., Any]) -> None:
        """Of two containers inside each other the one read first is shown whole."""
        first: dict[str, Any] = {"name": "first"}
        second: dict[str, Any] = {"name": "second", "other": first}
        first["other"] = second
        cut_second = {"name": "second", "other": "[CIRCULAR]"}
        assert function([first, second]) == [{"name": "first", "other": cut_second}, cut_second]

    def test_shared_a_billion_times(self, function: Callable[..., Any]) -> None:
        """Data that doubles with each level takes linear work."""
        data: Any = [{"token": "x"}]
        for _ in range(100):
            data = [data, data]
        copied = function(data)
        assert copied[0] is copied[1]

    def test_shared_is_not_circular(self, function: Callable[..., Any]) -> None:
        """A container that occurs twice side by side is shown twice."""
        shared = {"a": 1}
        assert function([shared, (shared,), shared]) == [{"a": 1}, ({"a": 1},), {"a": 1}]

    def test_subclasses(self, function: Callable[..., Any]) -> None:
        """A dict is copied as a plain dict in its order, a named tuple as such."""
        pair = namedtuple("pair", "left right")
        copied = function([OrderedDict(b=1, a=2), pair(1, 2)])
        assert [type(item) for item in copied] == [dict, pair]
        assert list(copied[0]) == ["b", "a"]

    def test_strange_keys(self, function: Callable[..., Any]) -> None:
        """Keys of any type are kept as they are."""
        data: dict[Any, Any] = {None: 1, 2: [3], ("t", 1): {}, b"b": (), 1.5: "x", frozenset(): None}
        assert function(data) == data

    def test_lone_surrogates_and_nan(self, function: Callable[..., Any]) -> None:
        """Text and numbers that JSON refuses are no concern here."""
        copied = function({"s": "\ud800", "n": float("inf")})
        assert copied == {"s": "\ud800", "n": float("inf")}


values = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
keys = (
    st.sampled_from([*sorted(SENSITIVE_KEYS), "Token", "API_KEY", "session_id", "input_tokens", "a", "b"])
    | st.integers()
)
trees = st.recursive(
    values,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4) | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=20,
)


def redacted_by_the_book(obj: Any) -> Any:
    """State redaction a second time, plainly."""
    if isinstance(obj, dict):
        return {
            key: REDACTED if isinstance(key, str) and key.lower() in SENSITIVE_KEYS else redacted_by_the_book(value)
            for key, value in obj.items()
        }
    if isinstance(obj, list | tuple):
        return type(obj)(map(redacted_by_the_book, obj))
    return obj


def secrets_in(obj: Any) -> list[Any]:
    """Collect the values of all sensitive keys."""
    if isinstance(obj, dict):
        own = [value for key, value in obj.items() if isinstance(key, str) and key.lower() in SENSITIVE_KEYS]
        return own + [secret for value in obj.values() for secret in secrets_in(value)]
    if isinstance(obj, list | tuple):
        return [secret for value in obj for secret in secrets_in(value)]
    return []


class TestProperties:
    @given(trees)
    def test_no_secret_survives(self, tree: Any) -> None:
        """After redaction every sensitive key holds the marker."""
        assert all(secret == REDACTED for secret in secrets_in(redact_secrets(tree)))

    @given(trees)
    def test_nothing_else_changes(self, tree: Any) -> None:
        """Ids, other keys, order and shape are untouched."""
        redacted = redact_secrets(tree)
        assert redacted == redacted_by_the_book(tree)
        assert repr(redacted) == repr(redacted_by_the_book(tree))

    @given(trees)
    def test_input_is_not_mutated(self, tree: Any) -> None:
        """Neither function changes what it is given."""
        before = copy.deepcopy(tree)
        redact_secrets(tree)
        truncate_values(tree, 2)
        assert tree == before

    @given(trees)
    def test_redaction_is_idempotent(self, tree: Any) -> None:
        """Redacting twice is redacting once."""
        assert redact_secrets(redact_secrets(tree)) == redact_secrets(tree)

    @given(trees)
    def test_copies_share_no_container(self, tree: Any) -> None:
        """Emptying the copy leaves the original whole."""
        before = copy.deepcopy(tree)
        for copied in (redact_secrets(tree), truncate_values(tree)):
            stack = [copied]
            while stack:
                item = stack.pop()
                if isinstance(item, dict):
                    stack.extend(item.values())
                    item.clear()
                elif isinstance(item, list | tuple):
                    stack.extend(item)
                    if isinstance(item, list):
                        item.clear()
        assert tree == before

    @given(st.text(max_size=40), st.integers(0, 20))
    def test_truncated_text_begins_as_it_did(self, words: str, limit: int) -> None:
        """A cut text keeps its first characters and counts the rest."""
        cut = truncate_values(words, limit)
        if len(words) <= limit:
            assert cut == words
        else:
            assert cut == f"{words[:limit]}... (truncated {len(words) - limit} chars)"


def test_names_of_the_package() -> None:
    """The package offers the same objects under its own name."""
    assert utils.redact_secrets is redact_secrets
    assert utils.truncate_values is truncate_values
    assert utils.SENSITIVE_KEYS is SENSITIVE_KEYS
