"""Who set what."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.bundles.bundle import Bundle, Layer
from amplifier_foundation.bundles.composition import compose_all
from amplifier_foundation.bundles.explain import Setting, explain, named_at, origin_of
from amplifier_foundation.bundles.file import BundleFile
from amplifier_foundation.documents import parse_document


def _file(name: str, text: str) -> Bundle:
    document = parse_document(Path(f"{name}.yaml"), text.encode())
    return BundleFile(document, "user", "user", name, Path()).bundle({})


def _layer(name: str, text: str) -> Layer:
    return _file(name, text).layers[0]


def _explained(*bundles: Bundle, extra: tuple[Layer, ...] = ()) -> dict[str, Setting]:
    return {setting.key: setting for setting in explain(compose_all(list(bundles)), extra)}


def _lost(setting: Setting) -> list[tuple[Any, str]]:
    return [(loser.value, loser.where) for loser in setting.lost]


def test_last_file_sets_and_others_lose() -> None:
    """A setting names the last file and line that set it, and every other value it was given."""
    settings = _explained(
        _file("a", "tools:\n  - module: t\n    config:\n      timeout: 1\n      only: a\n"),
        _file("b", "tools: [{module: t, config: {timeout: 2}}]\n"),
        _file("c", "\ntools: [{module: t, config: {timeout: 3}}]\n"),
    )
    timeout = settings["tools.t.config.timeout"]
    assert (timeout.value, timeout.set_by, timeout.bundle) == (3, "c.yaml:2", "c")
    assert _lost(timeout) == [(1, "a.yaml:4"), (2, "b.yaml:1")]
    assert (settings["tools.t.config.only"].set_by, settings["tools.t.config.only"].lost) == ("a.yaml:5", ())


def test_joined_lists_lose_nothing() -> None:
    """Lists are joined: the value is the whole one, the files that added to it are named, and none has lost."""
    paths = _explained(_file("a", "session: {paths: [1, 2]}"), _file("b", "session: {paths: [2, 3]}"))["session.paths"]
    assert paths.value == [1, 2, 3]
    assert (paths.set_by, paths.lost) == ("b.yaml:1", ())
    assert [(loser.value, loser.where) for loser in paths.joined] == [([1, 2], "a.yaml:1")]


def test_other_shapes_replace() -> None:
    """A text that takes the place of a mapping, or the other way, is what has won and what has lost."""
    short, long = "session: {orchestrator: loop-a}", "session: {orchestrator: {module: loop-b, config: {x: 1}}}"
    settings = _explained(_file("a", short), _file("b", long))
    assert "session.orchestrator" not in settings
    assert _lost(settings["session.orchestrator.module"]) == [("loop-a", "a.yaml:1")]
    settings = _explained(_file("b", long), _file("a", short))
    assert settings["session.orchestrator"].value == "loop-a"
    assert _lost(settings["session.orchestrator"]) == [("loop-b", "b.yaml:1"), (1, "b.yaml:1")]


def test_empty_mapping_takes_nothing_away() -> None:
    """`config: {}` over a config is no change; alone it is a setting of its own."""
    settings = _explained(
        _file("a", "tools: [{module: t, config: {x: 1}}]"), _file("b", "tools: [{module: t, config: {}}]")
    )
    assert settings["tools.t.config.x"].set_by == "a.yaml:1"
    assert "tools.t.config" not in settings
    assert _explained(_file("b", "tools: [{module: t, config: {}}]"))["tools.t.config"].value == {}


def test_agents_and_context() -> None:
    """Agents go by name as a whole, context files by their name in the prompt."""
    settings = _explained(
        _file("a", "agents: {include: ['x:y'], helper: {description: one}}\ncontext: {include: [c.md]}\n"),
        _file("b", "agents:\n  helper: {description: two}\ncontext:\n  'a:c.md': other.md\n"),
    )
    helper = settings["agents.helper"]
    assert (helper.value, helper.set_by) == ({"description": "two"}, "b.yaml:2")
    assert _lost(helper) == [({"description": "one"}, "a.yaml:1")]
    assert settings["agents.x:y"].set_by == "a.yaml:1"
    assert settings["context.a:c.md"].set_by == "b.yaml:4"


def test_settings_lie_over_the_bundle() -> None:
    """Layers of settings come last; their lists replace, but for the path lists of the file tool, which are joined."""
    base = "tools: [{module: tool-filesystem, config: {denied_write_paths: [a], other: [a]}}]"
    over = "tools: [{module: tool-filesystem, config: {denied_write_paths: [b], other: [b]}}]"
    settings = _explained(_file("a", base), extra=(_layer("settings", over),))
    assert settings["tools.tool-filesystem.config.denied_write_paths"].value == ["a", "b"]
    other = settings["tools.tool-filesystem.config.other"]
    assert (other.value, other.set_by, _lost(other)) == (["b"], "settings.yaml:1", [(["a"], "a.yaml:1")])


_SOURCE = "session: {orchestrator: o, orchestrator_source: ./m}\ntools: [{module: t, source: ./m}]\n"


async def test_sources_are_shown_as_they_are_used(place: Any) -> None:
    """A relative source is shown with the path it means, and the line it stands on."""
    place.write("project/b.yaml", "tools:\n  - module: t\n    source: ./m\n")
    (place.project / "m").mkdir()
    source = {setting.key: setting for setting in explain(await place.loader().load("./b.yaml"))}["tools.t.source"]
    assert (source.value, source.set_by) == (str(place.project / "m"), f"{place.project}/b.yaml:3")


async def test_two_spellings_of_one_source_are_no_rivals(place: Any) -> None:
    """`./m` in a behavior and in its root is one folder, and nothing lost; where it is another, its path is shown."""
    place.write("project/bundle.yaml", "bundle: {name: b}\nincludes: [./behaviors/x, ./behaviors/y/y]\n" + _SOURCE)
    place.write("project/behaviors/x.yaml", _SOURCE)
    place.write("project/behaviors/y/y.yaml", _SOURCE)
    (place.project / "m").mkdir()
    (place.project / "behaviors" / "y" / "m").mkdir()
    settings = {setting.key: setting for setting in explain(await place.loader().load("."))}
    for key in ("tools.t.source", "session.orchestrator_source"):
        assert settings[key].value == str(place.project / "m")
        assert [loser.value for loser in settings[key].lost] == [str(place.project / "behaviors" / "y" / "m")]


async def test_shared_include_is_no_rival_of_itself(place: Any) -> None:
    """A file that takes part twice wins once, and only what came in between has lost."""
    place.write("project/top.yaml", "includes: [./left.yaml, ./right.yaml]\n")
    place.write("project/left.yaml", "includes: [./base.yaml]\nsession: {x: left}\n")
    place.write("project/right.yaml", "includes: [./base.yaml]\n")
    place.write("project/base.yaml", "session: {x: base}\n")
    (setting,) = explain(await place.loader().load("./top.yaml"))
    assert (setting.value, setting.bundle) == ("base", "base")
    assert [loser.bundle for loser in setting.lost] == ["left"]


_CONFIGS = st.dictionaries(
    st.sampled_from("ab"), st.integers(0, 2) | st.lists(st.integers(0, 2), max_size=2), max_size=2
)


@given(st.lists(_CONFIGS, min_size=1, max_size=4))
def test_values_are_those_of_the_plan(configs: list[dict[str, Any]]) -> None:
    """Whatever the files set, every explained value is the one in the plan, and none of the plan is left out."""
    import yaml

    files = [
        _file(f"f{index}", yaml.safe_dump({"tools": [{"module": "t", "config": config}]}))
        for index, config in enumerate(configs)
    ]
    plan = compose_all(files).mount_plan()
    config = plan["tools"][0]["config"]
    settings = _explained(*files)
    for key, value in config.items():
        assert settings[f"tools.t.config.{key}"].value == value
        setters = [f"f{index}.yaml" for index, given in enumerate(configs) if key in given]
        assert settings[f"tools.t.config.{key}"].set_by.startswith(setters[-1])
    assert set(settings) == {"tools.t.module", *(f"tools.t.config.{key}" for key in config)} | (
        set() if config else {"tools.t.config"}
    )


@pytest.mark.parametrize(
    ("section", "key", "origin", "where"),
    [
        ("tools", "t", "b", "b.yaml:1"),
        ("tools", "one", "a", "a.yaml:4"),
        ("tools", "plain", "a", "a.yaml:5"),
        ("tools", "gone", None, None),
        ("session", "orchestrator", "a", "a.yaml:7"),
        ("session", "loop-b", "b", "b.yaml:2"),
        ("session", "context", "b", "b.yaml:3"),
        ("session", "ctx", "b", "b.yaml:3"),
        ("spawn.tools", "t", "a", "a.yaml:8"),
        ("agents.ns:a.b.tools", "t", "b", "b.yaml:4"),
        ("agents.ns:a.b.hooks", "t", None, None),
    ],
)
def test_origin_of_a_module(section: str, key: str, origin: str | None, where: str | None) -> None:
    """The last file to give a source decides where a module comes from, else the first to name it."""
    one = _layer(
        "a",
        """\
tools:
  - module: t
    source: x
  - {module: t, id: one, source: y}
  - module: plain
session:
  orchestrator: {module: loop-a, source: z}
spawn: {tools: [{module: t, source: w}]}
agents: {"ns:a.b": {tools: [{module: t, source: old}], hooks: [{module: t}]}}
""",
    )
    other = _layer(
        "b",
        "tools: [{module: t, source: x2}, {module: one, config: {}}, {module: plain, config: {}}]\n"
        "session: {orchestrator: {module: loop-b}, context: ctx,\n  context_source: s}\n"
        'agents: {"ns:a.b": {tools: [{module: t}]}}\n',
    )
    found = origin_of([one, other], section, key)
    assert (found.bundle if found else None) == origin
    assert named_at([one, other], section, key) == where
