"""Sizes and durations."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.profile.quantities import parse_duration, parse_size, show_duration, show_size


@given(st.integers(0, 2**62))
def test_sizes_round_trip(size: int) -> None:
    """A size that was written is read as the same number of bytes."""
    assert parse_size(show_size(size)) == size


@given(st.integers(0, 10 * 365 * 86_400_000))
def test_durations_round_trip(thousandths: int) -> None:
    """A duration that was written is read as the same number of milliseconds."""
    assert round(parse_duration(show_duration(thousandths / 1000)) * 1000) == thousandths


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (512, 512),
        ("512", 512),
        ("1k", 1024),
        ("20m", 20 * 2**20),
        ("2g", 2**31),
        ("1.5g", 3 * 2**29),
        ("2GB", 2**31),
        ("2 GiB", 2**31),
        ("7b", 7),
        ("1t", 2**40),
    ],
)
def test_sizes_are_read_as_people_write_them(written: object, size: int) -> None:
    """Units are powers of 1024, in any case."""
    assert parse_size(written) == size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [(90, 90), (0.5, 0.5), ("90", 90), ("500ms", 0.5), ("20m", 1200), ("1.5h", 5400), ("1d", 86400)],
)
def test_durations_are_read_as_people_write_them(written: object, seconds: float) -> None:
    """A plain number is in seconds."""
    assert parse_duration(written) == seconds


@pytest.mark.parametrize("parse", [parse_size, parse_duration])
@pytest.mark.parametrize(
    "written",
    ["", "g", "-1", -1, "1x", "1e9", "٣", "1 2", None, True, [], float("nan"), float("inf"), "9" * 19, "1..2g"],
)
def test_what_is_no_quantity_is_refused(parse: object, written: object) -> None:
    """Nothing is guessed: no signs, exponents, foreign digits, truth values, and nothing that is too large."""
    with pytest.raises(ValueError, match=r"a (size|duration) is"):
        parse(written)  # type: ignore[operator]


@given(st.text() | st.floats() | st.integers())
def test_any_text_is_read_or_refused_in_plain_words(written: object) -> None:
    """Whatever is given, the answer is a number that is not negative, or a ValueError."""
    for parse in (parse_size, parse_duration):
        try:
            assert parse(written) >= 0
        except ValueError:
            pass  # refused in words, which is fine
