"""Shortening and redaction, also of data made to break them."""

from __future__ import annotations

import copy
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.utils.truncate import SENSITIVE_KEYS, redact_secrets, truncate_values

REDACTED = "[REDACTED]"


@pytest.mark.parametrize("function", [redact_secrets, truncate_values])
class TestHostileInput:
    def test_shared_a_billion_times(self, function: Callable[..., Any]) -> None:
        """Data that doubles with each level takes linear work."""
        data: Any = [{"token": "x"}]
        for _ in range(100):
            data = [data, data]
        copied = function(data)
        assert copied[0] is copied[1]

    def test_subclasses(self, function: Callable[..., Any]) -> None:
        """A dict is copied as a plain dict in its order, a named tuple as such."""
        pair = namedtuple("pair", "left right")
        copied = function([OrderedDict(b=1, a=2), pair(1, 2)])
        assert [type(item) for item in copied] == [dict, pair]
        assert list(copied[0]) == ["b", "a"]


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
