"""What happens when two files set the same key: laws of every policy."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.merge import (
    COMPOSE,
    OVERLAY,
    SETTINGS,
    MergePolicy,
    copied,
    join_lists,
    merge,
    merge_all,
    merge_modules,
    module_key,
)

_POLICIES = pytest.mark.parametrize("policy", [COMPOSE, SETTINGS, OVERLAY], ids=lambda policy: policy.name)
_SCALARS = st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | st.sampled_from(["", "1", "x", "ü"])
_KEYS = st.sampled_from(["a", "b", "config", "module"])
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_MODULES = st.lists(
    st.fixed_dictionaries(
        {"module": st.sampled_from(["m", "n"])},
        optional={"id": st.sampled_from(["m", "one"]), "config": st.dictionaries(_KEYS, _VALUES, max_size=2)},
    ),
    max_size=3,
)
_PLANS = st.fixed_dictionaries(
    {},
    optional={
        "a": _VALUES,
        "b": _VALUES,
        "tools": _MODULES,
        "providers": _MODULES,
        "modules": st.dictionaries(st.sampled_from(["tools", "hooks"]), _MODULES, max_size=2),
        "config": st.fixed_dictionaries({}, optional={"providers": _MODULES, "x": _VALUES}),
    },
)
#: Values of one shape per key, so that a list never meets a mapping or a plain value.
_SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "plain": _SCALARS,
        "list": st.lists(_SCALARS, max_size=3),
        "nested": st.fixed_dictionaries({}, optional={"plain": _SCALARS, "list": st.lists(_SCALARS, max_size=3)}),
        "tools": st.lists(
            st.fixed_dictionaries(
                {"module": st.sampled_from(["m", "n"])},
                optional={
                    "source": st.sampled_from(["s", "t"]),
                    "config": st.dictionaries(_KEYS, _SCALARS, max_size=2),
                },
            ),
            max_size=3,
        ),
    },
)


def _same(one: Any, other: Any) -> bool:
    """Return whether two values are equal down to their types and the order of keys."""
    return repr(one) == repr(other)


@_POLICIES
@given(plan=_PLANS)
def test_nothing_is_the_identity(policy: MergePolicy, plan: dict[str, Any]) -> None:
    """Nothing laid over a plan, or under it, gives that plan, modules of one key merged."""
    alone = merge({}, plan, policy)
    assert _same(merge(plan, {}, policy), alone)
    assert _same(merge(alone, {}, policy), alone)
    assert _same(merge_all([plan], policy), alone)
    assert merge_all([], policy) == {}


@_POLICIES
@given(plan=_SHAPED)
def test_idempotent(policy: MergePolicy, plan: dict[str, Any]) -> None:
    """A plan laid over itself changes nothing: joined lists hold each item once, others are replaced by themselves."""
    once = merge_all([plan, plan], policy)
    assert _same(merge(once, once, policy), once)
    assert _same(merge(once, plan, policy), once)


@_POLICIES
@given(one=_SHAPED, two=_SHAPED, three=_SHAPED)
def test_associative_where_shapes_agree(
    policy: MergePolicy, one: dict[str, Any], two: dict[str, Any], three: dict[str, Any]
) -> None:
    """Where each key has one kind of value, it does not matter which two of three layers are merged first."""
    left = merge(merge(one, two, policy), three, policy)
    right = merge(one, merge(two, three, policy), policy)
    assert left == right


@pytest.mark.parametrize(
    ("policy", "key"), [(COMPOSE, "list"), (SETTINGS, "mapping"), (OVERLAY, "mapping"), (COMPOSE, "mapping")]
)
def test_not_associative_where_shapes_differ(policy: MergePolicy, key: str) -> None:
    """The exception: a plain value between two lists or mappings cuts off the first one only if it meets it."""
    first, last = ([1], [2]) if key == "list" else ({"x": 1}, {"y": 2})
    layers: list[dict[str, Any]] = [{"a": first}, {"a": "plain"}, {"a": last}]
    assert merge_all(layers, policy) == {"a": last}
    grouped = merge(layers[0], merge(layers[1], layers[2], policy), policy)
    assert grouped == {"a": [1, 2] if key == "list" else {"x": 1, "y": 2}}


@_POLICIES
@given(base=_PLANS, over=_PLANS)
def test_nothing_is_changed_or_shared(policy: MergePolicy, base: dict[str, Any], over: dict[str, Any]) -> None:
    """Neither side is changed, and no list or mapping of the result is one of theirs."""
    before = copy.deepcopy((base, over))
    merged = merge(base, over, policy)
    assert _same((base, over), before)
    mine = {id(part) for part in _containers(merged)}
    assert not mine & {id(part) for part in [*_containers(base), *_containers(over)]}


def _containers(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [value, *(part for item in value.values() for part in _containers(item))]
    if isinstance(value, list):
        return [value, *(part for item in value for part in _containers(item))]
    return []


@_POLICIES
@given(base=_PLANS, over=_PLANS)
def test_order_is_as_first_seen(policy: MergePolicy, base: dict[str, Any], over: dict[str, Any]) -> None:
    """Keys and modules stand in the order in which they were first seen."""
    merged = merge(base, over, policy)
    assert list(merged) == list(dict.fromkeys([*base, *over]))
    if policy is not SETTINGS:
        entries = [*(base.get("tools") or []), *(over.get("tools") or [])]
        assert [module_key(entry) for entry in merged.get("tools") or []] == list(
            dict.fromkeys(map(module_key, entries))
        )


@_POLICIES
@given(base=_PLANS, over=_PLANS)
def test_plain_values_are_replaced(policy: MergePolicy, base: dict[str, Any], over: dict[str, Any]) -> None:
    """A plain value on top is what counts, whatever was there, nothing (null) included."""
    merged = merge(base, over, policy)
    for key, value in over.items():
        if not isinstance(value, dict | list):
            assert _same(merged[key], value)


@given(base=_PLANS, over=_PLANS)
def test_lists_by_policy(base: dict[str, Any], over: dict[str, Any]) -> None:
    """COMPOSE joins plain lists; SETTINGS and OVERLAY replace them."""
    if isinstance(base.get("a"), list) and isinstance(over.get("a"), list):
        assert _same(merge(base, over, COMPOSE)["a"], join_lists(base["a"], over["a"]))
        assert _same(merge(base, over, SETTINGS)["a"], over["a"])
        assert _same(merge(base, over, OVERLAY)["a"], over["a"])


@given(st.lists(_VALUES, max_size=4), st.lists(_VALUES, max_size=4), st.lists(_VALUES, max_size=4))
def test_joining_lists(one: list[Any], two: list[Any], three: list[Any]) -> None:
    """Joining keeps order, holds each item once, and is associative and idempotent."""
    joined = join_lists(one, two)
    assert all(any(_same(_sorted(item), _sorted(kept)) for kept in joined) for item in [*one, *two])
    assert _same(join_lists(joined, joined), joined)
    assert _same(join_lists(joined, two), joined)
    assert _same(join_lists(join_lists(one, two), three), join_lists(one, join_lists(two, three)))
    assert _same(joined[: len(join_lists([], one))], join_lists([], one))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def test_duplicates_are_told_by_type() -> None:
    """`1`, `1.0`, `True` and `"1"` are four items; the order of keys makes no other mapping."""
    items = [1, 1.0, True, "1", None, "None", [1], ["1"], {"a": 1, "b": 2}]
    assert _same(join_lists(items, [{"b": 2, "a": 1}, [1], None, *items]), items)


def test_modules_go_by_id_else_module() -> None:
    """Entries of one key are merged in the place of the first; the id comes before the module; others are dropped."""
    base = [{"module": "m", "config": {"a": 1}}, {"module": "m", "id": "one"}, {"module": "n"}]
    over = [{"module": "n", "source": "s"}, {"id": "one", "config": {"b": 2}}, {"config": {}}, "text", None]
    assert merge_modules(base, over, COMPOSE, ("tools",)) == [
        {"module": "m", "config": {"a": 1}},
        {"module": "m", "id": "one", "config": {"b": 2}},
        {"module": "n", "source": "s"},
    ]
    entries: list[Any] = [{"id": 3}, {"id": "", "module": "m"}, [], {"module": None}]
    assert [module_key(entry) for entry in entries] == [
        None,
        "m",
        None,
        None,
    ]


@pytest.mark.parametrize(
    ("policy", "place"),
    [
        (COMPOSE, ("tools",)),
        (COMPOSE, ("hooks",)),
        (OVERLAY, ("providers",)),
        (SETTINGS, ("config", "providers")),
        (SETTINGS, ("modules", "anything")),
    ],
)
def test_where_modules_are_merged(policy: MergePolicy, place: tuple[str, ...]) -> None:
    """The places of the table merge modules by key, two of one key in one file too."""
    base = _at(place, [{"module": "m", "config": {"a": 1}}])
    over = _at(place, [{"module": "m", "config": {"b": 2}}, {"module": "m", "config": {"c": 3}}])
    assert merge(base, over, policy) == _at(place, [{"module": "m", "config": {"a": 1, "b": 2, "c": 3}}])
    assert merge({}, over, policy) == _at(place, [{"module": "m", "config": {"b": 2, "c": 3}}])


@pytest.mark.parametrize("place", [("x", "tools"), ("session", "tools"), ("agents", "a", "tools")])
def test_where_modules_are_not_merged(place: tuple[str, ...]) -> None:
    """Lists of the same name elsewhere are plain lists."""
    base, over = _at(place, [{"module": "m"}]), _at(place, [{"module": "m", "x": 1}])
    assert merge(base, over, COMPOSE) == _at(place, [{"module": "m"}, {"module": "m", "x": 1}])
    assert merge(base, over, OVERLAY) == over


def _at(place: tuple[str, ...], value: Any) -> dict[str, Any]:
    for key in reversed(place):
        value = {key: value}
    result: dict[str, Any] = value
    return result


@pytest.mark.parametrize("name", ["allowed_read_paths", "allowed_write_paths", "denied_write_paths"])
def test_settings_unite_the_path_lists_of_the_file_tool(name: str) -> None:
    """A scope adds to the paths of another and never takes a denied one away; other lists are replaced."""
    for place in (("modules", "tools"), ("overrides",)):
        base, over = (_file_tool(place, {name: [item], "other": [item]}) for item in ("a", "b"))
        assert merge(base, over, SETTINGS) == _file_tool(place, {name: ["a", "b"], "other": ["b"]})


def _file_tool(place: tuple[str, ...], config: dict[str, Any]) -> dict[str, Any]:
    if place == ("overrides",):
        return {"overrides": {"tool-filesystem": {"config": config}}}
    return _at(place, [{"module": "tool-filesystem", "config": config}])


def test_same_list_of_another_tool_is_replaced() -> None:
    """Only the file tool's path lists are united."""
    base, over = ({"modules": {"tools": [{"module": "t", "config": {"denied_write_paths": [x]}}]}} for x in "ab")
    assert merge(base, over, SETTINGS) == over


@given(_VALUES)
def test_copies_are_equal_and_apart(value: Any) -> None:
    """A copy equals what it is a copy of, and shares no container with it."""
    copy_of = copied(value)
    assert _same(copy_of, value)
    assert not {id(part) for part in _containers(copy_of)} & {id(part) for part in _containers(value)}
