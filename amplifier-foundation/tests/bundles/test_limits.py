"""A bundle that leads to far more than any bundle that is meant ends at a limit, with a code, and not in minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from amplifier_foundation.bundles.agents import resolve_agents
from amplifier_foundation.bundles.bundle import BundleError, BundleLimitError, IncludeError
from amplifier_foundation.bundles.graph import MAX_DEPTH, MAX_FILES, MAX_INCLUDES

_MANY = 10_000
#: More than are ever read, and fewer than take long to write.
_WRITTEN = 2 * MAX_FILES
_LAUGHS = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"


def _write(place: Any, number: int, includes: Sequence[int], more: str = "") -> None:
    lines = [f"bundle: {{name: f{number}}}", *(["includes:"] if includes else [])]
    lines += [f"  - ./f{target}.yaml" for target in includes]
    place.write(f"project/f{number}.yaml", "\n".join([*lines, more]))


def _wide(place: Any) -> None:
    _write(place, 0, range(1, _MANY + 1))
    for number in range(1, _WRITTEN):
        _write(place, number, [])


def _repeated(place: Any) -> None:
    _write(place, 0, [1] * _MANY)
    _write(place, 1, [])


def _missing(place: Any) -> None:
    _write(place, 0, range(1, _MANY + 1))


def _tree(place: Any) -> None:
    """Every file has thirty of its own: none has many, all together do."""
    for number in range(100):
        _write(place, number, range(number * 30 + 1, number * 30 + 31))


def _chain(place: Any) -> None:
    for number in range(_WRITTEN):
        _write(place, number, [number + 1])


def _cycle(place: Any) -> None:
    for number in range(_WRITTEN):
        _write(place, number, [(number + 1) % _WRITTEN])


def _diamonds(place: Any) -> None:
    for number in range(0, _WRITTEN, 2):
        for each in (number, number + 1):
            _write(place, each, [number + 2, number + 3])


def _everybody(place: Any) -> None:
    for number in range(100):
        _write(place, number, [other for other in range(100) if other != number])


def _values(place: Any) -> None:
    """Each file is one that may be; fifty of them take a minute to put together."""
    lines = [f"  {_LAUGHS}", *(f"  a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 5))]
    _write(place, 0, range(1, 51))
    for number in range(1, 51):
        _write(place, number, [], "session:\n" + "".join(lines))


_SHAPES = (_wide, _repeated, _missing, _tree, _chain, _cycle, _diamonds, _everybody, _values)


@pytest.mark.parametrize("allow_missing", [False, True])
@pytest.mark.parametrize("shape", _SHAPES, ids=lambda shape: shape.__name__)
async def test_a_bundle_without_end_ends_at_a_limit(shape: Any, allow_missing: bool, place: Any) -> None:
    """Whatever the shape, the error has a code and names the limit; leaving out what is missing does not help."""
    shape(place)
    with pytest.raises(BundleLimitError, match=r"leads to more than [0-9,]+ (files|includes|values)") as raised:
        await place.loader(allow_missing=allow_missing).load("./f0.yaml")
    assert raised.value.code == "bundle_limit"


_KEYS = ", ".join(f"k{at}: 1" for at in range(1000))
_INVALID = {
    "anchors": _LAUGHS + "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 12)),
    "depth": "session: " + "{a: " * _MANY + "1" + "}" * _MANY,
    "merged": f"b: &b {{{_KEYS}}}\nsession: {{<<: [{', '.join(['*b'] * _MANY)}]}}",
}


@pytest.mark.parametrize("text", _INVALID.values(), ids=_INVALID)
async def test_one_file_without_end_is_invalid(text: str, place: Any) -> None:
    """Anchors of anchors and values in values are an error of their file."""
    place.write("project/f0.yaml", f"bundle: {{name: f0}}\n{text}")
    with pytest.raises(BundleError, match="more than"):
        await place.loader().load("./f0.yaml")


async def test_what_is_meant_is_far_from_the_limits(place: Any) -> None:
    """As many files as there may be are composed, and includes that are nested too deep are told as such."""
    _write(place, 0, range(1, MAX_FILES))
    for number in range(1, MAX_FILES):
        _write(place, number, [])
    assert (await place.loader().load("./f0.yaml")).name == "f0"
    for number in range(MAX_DEPTH + 1):
        _write(place, number, [number + 1])
    with pytest.raises(IncludeError, match=f"more than {MAX_DEPTH} files deep"):
        await place.loader().load("./f0.yaml")


async def test_a_thousand_faults_are_told_in_a_few_lines(place: Any) -> None:
    """What is wrong is told as often as somebody reads it, and how much more there is."""
    _write(place, 0, range(1, MAX_INCLUDES))
    with pytest.raises(IncludeError) as raised:
        await place.loader().load("./f0.yaml")
    lines = str(raised.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 1,979 more of these"


def test_a_roster_without_end_ends_at_a_limit(place: Any) -> None:
    """Agents are files that are read as well, whether or not they are there."""
    roster = {"include": [f"a{number}" for number in range(_MANY)]}
    with pytest.raises(BundleLimitError, match="more than 1,000 agents"):
        resolve_agents(roster, {}, "f0", place.project, place.home, warnings=[], allow_missing=True)
