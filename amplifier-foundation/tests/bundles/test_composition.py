"""One bundle laid over another."""

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.bundles.bundle import Bundle
from amplifier_foundation.bundles.composition import compose, compose_all
from amplifier_foundation.bundles.explain import explain
from amplifier_foundation.merge import COMPOSE, merge, module_key

_KEYS = st.sampled_from("abc")
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_MODULES = st.lists(
    st.fixed_dictionaries(
        {"module": st.sampled_from(["m", "n"])},
        optional={"id": st.sampled_from(["m", "one"]), "source": st.sampled_from(["s", "t"]), "config": _VALUES},
    ),
    max_size=3,
)


@st.composite
def _bundles(draw: Any) -> Bundle:
    name = draw(st.sampled_from(["left", "right"]))
    return Bundle(
        name=name,
        version=draw(st.sampled_from(["1", "2"])),
        description=draw(st.sampled_from(["", "d", "e"])),
        instruction=draw(st.sampled_from(["", "Be kind.", "Be quick."])),
        session=draw(st.dictionaries(_KEYS, _VALUES, max_size=3)),
        spawn=draw(st.dictionaries(_KEYS, _VALUES, max_size=2)),
        providers=draw(_MODULES),
        tools=draw(_MODULES),
        hooks=draw(_MODULES),
        agents=draw(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=2), max_size=3)),
        context={f"{name}:{key}": Path(key) for key in draw(st.lists(_KEYS, max_size=2))},
        namespaces={key: Path(name) / key for key in draw(st.lists(_KEYS, max_size=2))},
    )


@given(_bundles(), _bundles())
def test_every_part_follows_its_rule(base: Bundle, over: Bundle) -> None:
    """Each row of the table of rules holds for any two bundles."""
    composed = compose(base, over)
    assert (composed.name, composed.version) == (over.name, over.version)
    assert composed.description == (over.description or base.description)
    assert composed.instruction == (over.instruction or base.instruction)
    assert composed.session == merge(base.session, over.session, COMPOSE)
    assert composed.spawn == merge(base.spawn, over.spawn, COMPOSE)
    for section in ("providers", "tools", "hooks"):
        expected = merge({section: getattr(base, section)}, {section: getattr(over, section)}, COMPOSE)[section]
        assert getattr(composed, section) == expected
    assert composed.agents == {**base.agents, **over.agents}
    assert composed.context == {**base.context, **over.context}
    assert composed.namespaces == {**over.namespaces, **base.namespaces}


@given(_bundles(), _bundles())
def test_nothing_is_changed_or_shared(base: Bundle, over: Bundle) -> None:
    """Composing changes neither bundle, and changing the result changes neither."""
    before = copy.deepcopy((base, over))
    composed = compose(base, over)
    for part in (composed.session, composed.spawn, *composed.tools, *composed.agents.values()):
        part["changed"] = True
        for value in part.values():
            if isinstance(value, dict):
                value["changed"] = True
            elif isinstance(value, list):
                value.append("changed")
    composed.context["changed"] = Path()
    composed.namespaces["changed"] = Path()
    assert (base, over) == before


@given(_bundles())
def test_an_empty_bundle_changes_only_the_name(bundle: Bundle) -> None:
    """Laid over nothing, a bundle is itself, entries of one key merged; nothing over it leaves its parts."""
    over_nothing = compose(Bundle(), bundle)
    assert over_nothing.session == bundle.session
    assert [module_key(entry) for entry in over_nothing.tools] == list(dict.fromkeys(map(module_key, bundle.tools)))
    under_nothing = compose(bundle, Bundle(name="n"))
    assert under_nothing.name == "n"
    assert under_nothing.mount_plan() == over_nothing.mount_plan()
    assert under_nothing.instruction == over_nothing.instruction == bundle.instruction


@given(st.lists(_bundles(), min_size=1, max_size=4))
def test_last_word_of_scalars(bundles: list[Bundle]) -> None:
    """However many are laid on each other, the last bundle that sets a plain value decides it."""
    composed = compose_all(bundles)
    for key in "abc":
        last = next((bundle.session[key] for bundle in reversed(bundles) if key in bundle.session), None)
        if not isinstance(last, dict | list):
            assert composed.session.get(key) == last


def test_list_merge_keeps_config() -> None:
    """LESSON: a module named again without its config, or with another part of it, keeps what it had."""
    base = Bundle(tools=[{"module": "t", "source": "s", "config": {"a": 1, "deep": {"x": 1}, "list": [1, 2]}}])
    for over in ([], [{"module": "t"}], [{"module": "t", "config": {}}], [{"module": "other"}]):
        assert compose(base, Bundle(tools=over)).tools[0] == base.tools[0]
    over_config = {"b": 2, "deep": {"y": 2}, "list": [2, 3]}
    assert compose(base, Bundle(tools=[{"module": "t", "config": over_config}])).tools == [
        {"module": "t", "source": "s", "config": {"a": 1, "b": 2, "deep": {"x": 1, "y": 2}, "list": [1, 2, 3]}}
    ]


async def test_composed_behaviour_never_silently_replaces_the_root_prompt(place: Any) -> None:
    """LESSON: the including file keeps its prompt; a later bundle with a prompt wins by the rule, and it is told."""
    place.write("project/root.md", "---\nincludes: [./extra.md]\n---\nThe prompt of the root.")
    place.write("project/extra.md", "---\nhooks: [{module: hooks-x}]\n---\nA prompt of an extra.")
    loader = place.loader()
    root, extra = await loader.load("./root.md"), await loader.load("./extra.md")
    assert root.instruction == "The prompt of the root."
    assert root.warnings == ()
    lost = next(setting for setting in explain(root) if setting.key == "instruction").lost
    assert [(loser.value, loser.bundle) for loser in lost] == [("A prompt of an extra.", "extra")]

    later = compose(root, extra)
    assert later.instruction == "A prompt of an extra."
    assert "the instruction of 'root'" in later.warnings[0]
    assert "is not used" in later.warnings[0]
    lost = next(setting for setting in explain(later) if setting.key == "instruction").lost
    assert [loser.bundle for loser in lost] == ["root"]


async def test_as_a_behavior_a_bundle_adds_without_taking_over(place: Any) -> None:
    """What is composed as a behavior leaves name, file and prompt of the root; a prompt it brings is told as unused."""
    place.write("project/root.md", "---\nbundle: {name: root, version: 2}\nsession: {a: root}\n---\nRoot prompt.")
    place.write("project/extra.md", "---\nbundle: {name: extra}\nsession: {a: extra}\n---\nExtra prompt.")
    loader = place.loader()
    root, extra = await loader.load("./root.md"), await loader.load("./extra.md")
    both = compose(root, extra, as_behavior=True)
    assert (both.name, both.version, both.file, both.instruction) == ("root", "2", root.file, "Root prompt.")
    assert both.session == {"a": "extra"}
    assert "the instruction of 'extra'" in both.warnings[-1]
    prompt = explain(both)[0]
    assert (prompt.bundle, [loser.bundle for loser in prompt.lost]) == ("root", ["extra"])
    root.instruction = ""
    assert compose(root, extra, as_behavior=True).instruction == "Extra prompt."


async def test_two_includes_with_prompts_are_told(place: Any) -> None:
    """Where the including file has no prompt, the last include's is used and the others are named."""
    place.write("project/root.yaml", "includes: [./a.md, ./b.md]\n")
    place.write("project/a.md", "Prompt of a.")
    place.write("project/b.md", "Prompt of b.")
    bundle = await place.loader().load("./root.yaml")
    assert bundle.instruction == "Prompt of b."
    one, other = (f"'{name}' ({place.project}/{name}.md)" for name in "ab")
    assert bundle.warnings == (f"the instruction of {one} is not used: that of {other} takes its place",)


@pytest.mark.parametrize("kind", ["orchestrator", "context"])
def test_borrowed_source_is_told(kind: str) -> None:
    """A session module that gets the source of another one, as the rule has it, is told with the way out."""
    base = Bundle(name="a", session={kind: {"module": "one", "source": "s"}})
    composed = compose(base, Bundle(name="b", session={kind: {"module": "two"}}))
    assert composed.session[kind] == {"module": "two", "source": "s"}
    assert "'two' of 'b' gets the source that 'a' gives for 'one'" in composed.warnings[0]
    without_warning: list[Any] = [{"module": "two", "source": None}, {"config": {}}, {"module": "one"}, "two"]
    for quiet in without_warning:
        assert compose(base, Bundle(name="b", session={kind: quiet})).warnings == ()


def test_pending_context_is_found_once_its_namespace_comes(tmp_path: Path) -> None:
    """Context of a namespace that another bundle brings is kept until then."""
    waiting = Bundle(name="a", pending_context=("ns:x.md", "other:y.md"))
    bringing = Bundle(name="b", namespaces={"ns": tmp_path})
    for composed in (compose(waiting, bringing), compose(bringing, waiting)):
        assert composed.context == {"ns:x.md": tmp_path / "x.md"}
        assert composed.pending_context == ("other:y.md",)
