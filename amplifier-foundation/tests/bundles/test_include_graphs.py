"""Random graphs of files that include each other."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from amplifier_foundation.bundles.bundle import Bundle, BundleCycleError, BundleError, IncludeError
from amplifier_foundation.merge import COMPOSE, merge

#: Includes of each file by number; a number without a file stands for one that is missing.
Graph = list[list[int]]

_NUMBERS = st.integers(0, 5)
_GRAPHS: st.SearchStrategy[Graph] = st.lists(st.lists(_NUMBERS, max_size=3), min_size=1, max_size=6)
#: Every file includes only later ones, so that there is no cycle.
_TREES: st.SearchStrategy[Graph] = st.integers(1, 6).flatmap(
    lambda count: st.tuples(
        *(
            st.lists(st.integers(index + 1, count - 1), max_size=3) if index + 1 < count else st.just([])
            for index in range(count)
        )
    ).map(list)
)
_FOLDERS = ("", "behaviors/", "a b/ü/")
#: How includes are written: from the file, or from the root of the first file's namespace; the suffix may be left out.
_SPELLINGS = st.sampled_from([("relative", ".yaml"), ("relative", ""), ("namespaced", ".yaml"), ("namespaced", "")])
Spelling = tuple[str, str]


def _file(number: int) -> str:
    return f"{_FOLDERS[number % 3]}f{number}.yaml"


def _data(number: int) -> dict[str, Any]:
    """Return what a file sets: a value all fight for, one of its own, and a list that all add to."""
    return {
        "session": {"last": number, f"own{number}": number, "all": [number]},
        "tools": [{"module": f"tool-{number % 3}", "config": {"by": number, "seen": [number]}}],
    }


def _text(number: int, includes: list[int], spelling: Spelling) -> str:
    """Return the file; its first include stands on line 3."""
    lines = [f"bundle: {{name: f{number}}}", "includes:" if includes else "includes: []"]
    lines += [f"  - {_reference(number, target, spelling)}" for target in includes]
    return "\n".join([*lines, yaml.safe_dump(_data(number))])


def _reference(number: int, target: int, spelling: Spelling) -> str:
    kind, suffix = spelling
    up = "../" * _FOLDERS[number % 3].count("/")
    return f"{'f0:' if kind == 'namespaced' else up or './'}{_file(target).removesuffix('.yaml')}{suffix}"


def _write(place: Any, graph: Graph, spelling: Spelling) -> None:
    for number, includes in enumerate(graph):
        place.write(f"project/{_file(number)}", _text(number, includes, spelling))


async def _load(
    make_place: Callable[[Path], Any], graph: Graph, spelling: Spelling = ("relative", ".yaml"), **options: Any
) -> Bundle:
    with tempfile.TemporaryDirectory() as folder:
        place = make_place(Path(folder))
        _write(place, graph, spelling)
        bundle: Bundle = await place.loader(**options).load(f"./{_file(0)}")
        return bundle


def _expected(graph: Graph, number: int) -> dict[str, Any]:
    """Return the plan by the written rule: first include, each next one over it, the file itself last."""
    plan: dict[str, Any] = {}
    for target in graph[number]:
        plan = merge(plan, _expected(graph, target), COMPOSE)
    return merge(plan, _data(number), COMPOSE)


def _has_cycle(graph: Graph, number: int, above: tuple[int, ...] = ()) -> bool:
    if number in above:
        return True
    return any(target < len(graph) and _has_cycle(graph, target, (*above, number)) for target in graph[number])


def _reached(graph: Graph) -> set[int]:
    seen: set[int] = set()
    waiting = [0]
    while waiting:
        number = waiting.pop()
        if number not in seen and number < len(graph):
            seen.add(number)
            waiting += graph[number]
    return seen


@given(graph=_TREES, spelling=_SPELLINGS)
async def test_every_graph_without_cycles_composes_in_order(make_place: Any, graph: Graph, spelling: Spelling) -> None:
    """Chains, diamonds and repeated includes give the plan of the written rule, whatever the folders and spellings."""
    bundle = await _load(make_place, graph, spelling)
    assert bundle.mount_plan() == _expected(graph, 0)
    assert {layer.bundle for layer in bundle.layers} == {f"f{number}" for number in _reached(graph)}
    assert bundle.layers[-1].bundle == "f0"


@given(graph=_GRAPHS, spelling=_SPELLINGS)
async def test_every_graph_ends_and_its_faults_are_named(make_place: Any, graph: Graph, spelling: Spelling) -> None:
    """Any graph loads or ends in an error: each missing file and some cycle is named with file and line."""
    missing = {
        (number, at)
        for number in _reached(graph)
        for at in range(len(graph[number]))
        if graph[number][at] >= len(graph)
    }
    if missing:
        with pytest.raises(IncludeError) as unresolved:
            await _load(make_place, graph, spelling)
        named = set(re.findall(r"f(\d+)\.yaml:(\d+): the include", str(unresolved.value)))
        assert named == {(str(number), str(at + 3)) for number, at in missing}
    elif _has_cycle(graph, 0):
        with pytest.raises(BundleCycleError) as endless:
            await _load(make_place, graph, spelling)
        _check_chains(graph, str(endless.value))
    else:
        assert (await _load(make_place, graph, spelling)).mount_plan() == _expected(graph, 0)


def _check_chains(graph: Graph, text: str) -> None:
    """Check that each chain an error prints is one of includes that are there, and comes round."""
    for chain in text.split("without end:")[1:]:
        steps = re.findall(r"f(\d+)\.yaml:(\d+) includes '[^']*f(\d+)(?:\.yaml)?'", chain)
        assert steps
        for index, (number, line, target) in enumerate(steps):
            assert graph[int(number)][int(line) - 3] == int(target)
            assert steps[(index + 1) % len(steps)][0] == target


@given(graph=_GRAPHS)
async def test_allowed_to_be_missing_every_graph_loads(make_place: Any, graph: Graph) -> None:
    """With `allow_missing` every graph gives a bundle, with each reachable file in it and a warning per fault."""
    bundle = await _load(make_place, graph, allow_missing=True)
    assert {layer.bundle for layer in bundle.layers} == {f"f{number}" for number in _reached(graph)}
    has_fault = _has_cycle(graph, 0) or any(target >= len(graph) for n in _reached(graph) for target in graph[n])
    assert bool(bundle.warnings) == has_fault


@given(graph=_TREES)
@settings(max_examples=20)
async def test_loading_twice_gives_the_same(make_place: Any, graph: Graph) -> None:
    """The order in which files are read at once never shows: two loads are equal down to warnings and layers."""
    one, other = await _load(make_place, graph), await _load(make_place, graph)
    assert one.mount_plan() == other.mount_plan()
    assert [layer.bundle for layer in one.layers] == [layer.bundle for layer in other.layers]
    assert list(one.namespaces) == list(other.namespaces)


@pytest.mark.parametrize("graph", [[[0]], [[1], [0]], [[1, 2], [2], [1]], [[1, 1]], [[5]], [[1], [2], [3], [1]]])
async def test_known_shapes_end(make_place: Any, graph: Graph) -> None:
    """The shapes that made others wait for ever end here."""
    with pytest.raises(BundleError):
        await _load(make_place, graph)
