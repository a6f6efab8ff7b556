"""Relative sources."""

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles import BundleError
from amplifier_foundation.bundles.anchors import anchor_sources, root_above

_TOOL = "tools:\n  - module: tool-x\n    source: ./modules/tool-x\n"


@pytest.fixture
def bundle_folder(place: Any) -> Path:
    """Return the folder of a bundle that has a module and a behavior which uses it."""
    place.write("project/bundle.md", f"---\nincludes: [./behaviors/x.yaml]\n{_TOOL}---\n")
    place.write("project/behaviors/x.yaml", _TOOL.replace("tool-x\n    ", "tool-y\n    "))
    (place.project / "modules" / "tool-x").mkdir(parents=True)
    folder: Path = place.project
    return folder


async def test_source_works_from_the_root_and_from_behaviors(place: Any, bundle_folder: Path) -> None:
    """`./modules/tool-x` means the same folder in bundle.md and in behaviors/x.yaml, however they are loaded."""
    module = str(bundle_folder / "modules" / "tool-x")
    bundle = await place.loader().load(".")
    assert [tool["source"] for tool in bundle.tools] == [module, module]
    alone = await place.loader().load("./behaviors/x.yaml")
    assert [tool["source"] for tool in alone.tools] == [module]


async def test_source_beside_the_file_comes_first(place: Any, bundle_folder: Path) -> None:
    """What lies beside the declaring file is meant before what lies at the root of its bundle."""
    (bundle_folder / "behaviors" / "modules" / "tool-x").mkdir(parents=True)
    bundle = await place.loader().load("./behaviors/x.yaml")
    assert bundle.tools[0]["source"] == str(bundle_folder / "behaviors" / "modules" / "tool-x")


async def test_source_that_is_nowhere_names_file_line_and_both_places(place: Any, bundle_folder: Path) -> None:
    """A source that is in neither place is an error that names the line and both places."""
    place.write("project/behaviors/x.yaml", "bundle: {name: x}\n" + _TOOL.replace("/tool-x", "/gone"))
    with pytest.raises(BundleError) as caught:
        await place.loader().load("./behaviors/x.yaml")
    text = str(caught.value)
    assert f"{bundle_folder}/behaviors/x.yaml:4: the source './modules/gone' of 'tool-x' was not found" in text
    assert f"{bundle_folder}/behaviors/modules/gone" in text
    assert f"{bundle_folder}/modules/gone" in text


@pytest.mark.parametrize("written", ['"./a\\0b"', "./loop", f"./{'x' * 300}"], ids=["null", "loop", "long"])
@pytest.mark.parametrize("form", ["tools:\n  - {module: t, source: %s}\n", "session:\n  context_source: %s\n"])
async def test_source_that_no_file_can_be(place: Any, written: str, form: str) -> None:
    """A source that the file system cannot even look for is an error with file and line like any other."""
    place.project.joinpath("loop").symlink_to("loop")
    file = place.write("project/b.yaml", "bundle: {name: b}\n" + form % written)
    with pytest.raises(BundleError) as caught:
        await place.loader().load("./b.yaml")
    assert str(caught.value).startswith(f"{file}:3: ")
    assert (await place.loader(allow_missing=True).load("./b.yaml")).warnings


async def test_all_places_of_sources_are_anchored(place: Any) -> None:
    """Sessions in both forms, spawn policies and inline agents have their sources anchored too; other kinds stay."""
    place.write(
        "project/b.yaml",
        """\
session:
  orchestrator: loop-x
  orchestrator_source: ./m
  context: {module: c, source: ./m}
spawn: {tools: [{module: t, source: ./m}]}
hooks: [{module: h, source: git+https://host/x@main}, {module: i, source: /abs}, {module: j, source: name}]
providers: [{module: provider-mock, config: {scenario: run.yaml}}, {module: p, config: {scenario: run.yaml}}]
agents:
  helper: {tools: [{module: t, source: ../project/m}], session: {orchestrator: {module: o, source: ./m}}}
""",
    )
    (place.project / "m").mkdir()
    bundle = await place.loader().load("./b.yaml")
    module = str(place.project / "m")
    assert bundle.session["orchestrator_source"] == bundle.session["context"]["source"] == module
    assert bundle.spawn["tools"][0]["source"] == module
    assert bundle.agents["helper"]["tools"][0]["source"] == module
    assert bundle.agents["helper"]["session"]["orchestrator"]["source"] == module
    assert [hook["source"] for hook in bundle.hooks] == ["git+https://host/x@main", "/abs", "name"]
    assert bundle.providers[0]["config"]["scenario"] == str(place.project / "run.yaml")
    assert bundle.providers[1]["config"]["scenario"] == "run.yaml"


@pytest.mark.parametrize("key", ["orchestrator_source", "context_source"])
async def test_short_form_is_told_with_its_line(place: Any, key: str) -> None:
    """The source beside a session module's bare id has its line as well."""
    place.write("project/b.yaml", f"session:\n  orchestrator: a\n  context: b\n  {key}: ./gone\n")
    with pytest.raises(BundleError, match=rf"b\.yaml:4: {key} './gone' was not found"):
        await place.loader().load("./b.yaml")


def test_part_is_not_changed(tmp_path: Path) -> None:
    """Anchoring returns a copy and leaves what it was given as it is."""
    (tmp_path / "m").mkdir()
    part: dict[str, Any] = {"tools": [{"module": "t", "source": "./m"}]}
    anchored = anchor_sources(part, tmp_path / "file.md", tmp_path)
    assert part["tools"][0]["source"] == "./m"
    assert anchored["tools"][0]["source"] == str(tmp_path / "m")


def test_missing_sources_can_be_passed_on(tmp_path: Path) -> None:
    """With `on_missing` nothing is raised: the text is passed on and the source points beside the file."""
    told: list[str] = []
    part = {"tools": [{"module": "t", "source": "./m"}]}
    anchored = anchor_sources(part, tmp_path / "file.md", tmp_path, on_missing=told.append)
    assert anchored["tools"][0]["source"] == str(tmp_path / "m")
    assert "'./m' of 't' was not found" in told[0]


async def test_linked_folder_counts_as_it_is_written_too(place: Any, bundle_folder: Path) -> None:
    """Below a linked folder `../` is followed as the system does, then as it is written."""
    place.write("elsewhere/x.yaml", "tools: [{module: t, source: ../modules/tool-x}]\n")
    (bundle_folder / "linked").symlink_to(place.folder / "elsewhere")
    bundle = await place.loader().load("./linked/x.yaml")
    assert bundle.tools[0]["source"] == str(bundle_folder / "modules" / "tool-x")


def test_root_is_looked_for_within_the_limit_only(tmp_path: Path) -> None:
    """The search upwards ends at the limit, compared by folders and never by the order of letters."""
    (tmp_path / "bundle.md").write_text("")
    limit = tmp_path / "b"
    (limit / "behaviors").mkdir(parents=True)
    assert root_above(limit / "behaviors" / "x.yaml", limit) is None
    assert root_above(limit / "behaviors" / "x.yaml", tmp_path / "bb") is None
    assert root_above(limit / "behaviors" / "x.yaml", tmp_path) == tmp_path / "bundle.md"
    assert root_above(tmp_path / "bundle.md", tmp_path) is None
