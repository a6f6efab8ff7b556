"""What YAML can say goes through JSON and comes back as it was."""

import json
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.json_codec import decode, encode

_keys = (
    st.text(max_size=5) | st.integers() | st.booleans() | st.none() | st.dates() | st.sampled_from(["$keys", "$date"])
)
_leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.dates()
    | st.datetimes(timezones=st.just(UTC) | st.none()).map(lambda moment: moment.replace(fold=0))
    | st.binary(max_size=5)
    | st.sets(st.integers() | st.text(max_size=3), max_size=3)
)
_data = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys, inner, max_size=3),
    max_leaves=12,
)


@given(_data)
def test_everything_comes_back(value: Any) -> None:
    """Going through JSON changes neither values nor their types."""
    back = decode(json.loads(json.dumps(encode(value))))
    assert back == value
    assert repr(_ordered(back)) == repr(_ordered(value)), "1, 1.0 and True are three things"


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(((repr(key), _ordered(item)) for key, item in value.items()), key=lambda pair: pair[0])
    if isinstance(value, list):
        return [_ordered(item) for item in value]
    return sorted(map(repr, value)) if isinstance(value, set) else value


def test_what_is_written_can_be_read() -> None:
    """Plain data stays as it is, and the rest says what it is."""
    assert encode({"a": [1, "x", None]}) == {"a": [1, "x", None]}
    assert encode({"d": date(2024, 1, 31), 1: b"\x00"}) == {
        "d": {"$date": "2024-01-31"},
        "$keys": [[1, {"$bytes": "AA=="}]],
    }
    assert encode({"t": datetime(2024, 1, 31, tzinfo=UTC)}) == {"t": {"$time": "2024-01-31T00:00:00+00:00"}}
    assert encode({"$x": float("nan")}) == {"$$x": {"$float": "nan"}}


@pytest.mark.parametrize(
    "record",
    [{"$date": "x"}, {"$bytes": "?"}, {"$keys": [1]}, {"$keys": [[{"a": 1}, 1]]}, {"$set": [{}]}, {"$date": 5}],
)
def test_what_nobody_wrote_is_an_error(record: Any) -> None:
    """A damaged record is told by an error of a known kind."""
    with pytest.raises((ValueError, TypeError)):
        decode(record)
