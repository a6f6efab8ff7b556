"""One bundle file."""

from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles import BundleError, load_bundle_file
from amplifier_foundation.bundles.checks import validate_completeness
from amplifier_foundation.bundles.shipped import fallback_namespaces, shipped_bundles

_PLAN = """\
bundle:
  name: mine
session:
  orchestrator: {module: loop-basic}
  context: {module: context-simple, source: ./modules/context-simple}
providers:
  - module: provider-mock
    config: {scenario: run.yaml}
tools:
  - module: tool-x
    source: ../tool-x
"""


def test_yaml_file_is_the_plan(tmp_path: Path) -> None:
    """A YAML bundle gives its plan, with relative sources and scenarios made absolute against the file."""
    (tmp_path / "b" / "modules" / "context-simple").mkdir(parents=True)
    (tmp_path / "tool-x").mkdir()
    file = tmp_path / "b" / "mine.yaml"
    file.write_text(_PLAN)
    bundle = load_bundle_file(file)
    assert (bundle.name, bundle.instruction) == ("mine", "")
    assert bundle.mount_plan()["tools"][0]["source"] == str(tmp_path / "tool-x")
    assert bundle.mount_plan()["session"]["context"]["source"] == str(tmp_path / "b" / "modules" / "context-simple")
    assert bundle.mount_plan()["providers"][0]["config"]["scenario"] == str(tmp_path / "b" / "run.yaml")
    assert "bundle" not in bundle.mount_plan()


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_markdown_file_is_plan_and_instruction(tmp_path: Path, newline: str, bom: str) -> None:
    """The front matter is the plan and the body the instruction, whatever the line ends and with a BOM too."""
    file = tmp_path / "b" / "mine.md"
    (tmp_path / "b" / "modules" / "context-simple").mkdir(parents=True)
    (tmp_path / "tool-x").mkdir()
    text = f"{bom}---\n{_PLAN}---\n\nBe careful.\n---\nStill body: ü\n"
    file.write_bytes(text.replace("\n", newline).encode())
    bundle = load_bundle_file(file)
    assert bundle.mount_plan()["session"]["orchestrator"] == {"module": "loop-basic"}
    assert bundle.instruction.replace("\r\n", "\n") == "Be careful.\n---\nStill body: ü"


def test_markdown_without_front_matter_is_an_instruction(tmp_path: Path) -> None:
    """A file without front matter is an empty plan with a body."""
    file = tmp_path / "mine.md"
    file.write_text("Just words.")
    bundle = load_bundle_file(file)
    assert (bundle.mount_plan(), bundle.instruction, bundle.name) == ({}, "Just words.", "mine")


def test_folder_prefers_the_markdown(tmp_path: Path) -> None:
    """A folder is its bundle.md, else its bundle.yaml."""
    (tmp_path / "bundle.yaml").write_text("bundle: {name: from-yaml}")
    assert load_bundle_file(tmp_path).name == "from-yaml"
    (tmp_path / "bundle.md").write_text("---\nbundle: {name: from-md}\n---\n")
    assert load_bundle_file(tmp_path).name == "from-md"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("b.yaml", "session: {\n", "b.yaml:2: malformed YAML"),
        ("b.md", "---\nsession:\n  a: [\n---\n", "b.md:4: malformed YAML"),
        ("b.md", "---\nsession: {}\n", "b.md:1: the front matter opened by '---' is never closed"),
        ("b.yaml", "- a\n- b\n", "b.yaml:1: must be a mapping of keys, got list"),
        ("b.yaml", "sesion: {}\n", "b.yaml:1: unknown key 'sesion': did you mean 'session'?"),
        (
            "b.yaml",
            "session: {}\nincludes: [x]\n",
            "b.yaml:2: 'includes' cannot be resolved in a file that is read alone",
        ),
        ("b.yaml", "tools: {a: 1}\n", "b.yaml:1: 'tools' must be a list of modules, got a mapping"),
        (
            "b.yaml",
            "tools:\n  - tool-x\n",
            "b.yaml:2: tools[0] must be a mapping with a 'module', got text: write {module: tool-x}",
        ),
        ("b.txt", "", "a bundle is a .md or .yaml file, not .txt"),
    ],
)
def test_faults_name_file_and_reason(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Every fault of a bundle file is told with the file, the line where there is one, and the reason."""
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(BundleError) as caught:
        load_bundle_file(file)
    assert said in str(caught.value)
    assert name in str(caught.value)


def test_missing_files_are_told(tmp_path: Path) -> None:
    """A file or folder without a bundle is an error that names it."""
    with pytest.raises(BundleError, match="there is no such bundle file"):
        load_bundle_file(tmp_path / "nope.yaml")
    with pytest.raises(BundleError, match=r"no bundle\.md or bundle\.yaml in this folder"):
        load_bundle_file(tmp_path)


@pytest.mark.parametrize("name", sorted(shipped_bundles()))
async def test_shipped_bundles_load_and_are_complete(place: Any, name: str) -> None:
    """Every bundle that comes with the product loads without a warning and lacks nothing but a provider."""
    bundle = await place.loader().load(name)
    assert bundle.name == name
    assert bundle.warnings == ()
    found = validate_completeness(bundle, strict=True)
    assert found.warnings == []
    assert [error for error in found.errors if "there is no provider" not in error] == []
    assert bool(found.errors) == (name in fallback_namespaces())
    assert {layer.owner for layer in bundle.layers} == {"product"}


def test_name_of_a_bundle_without_one(tmp_path: Path) -> None:
    """Without a name of its own a bundle has that of its file, or of the folder whose bundle.md it is."""
    (tmp_path / "garden").mkdir()
    (tmp_path / "garden" / "bundle.yaml").write_text("session: {}")
    (tmp_path / "garden" / "tools.yaml").write_text("bundle: {}")
    assert load_bundle_file(tmp_path / "garden").name == "garden"
    assert load_bundle_file(tmp_path / "garden" / "tools.yaml").name == "tools"


def test_suffix_in_capitals(tmp_path: Path) -> None:
    """The suffix is recognised in capital letters too."""
    (tmp_path / "B.YAML").write_text("bundle: {name: loud, version: 2.1}")
    bundle = load_bundle_file(tmp_path / "B.YAML")
    assert (bundle.name, bundle.version) == ("loud", "2.1")


async def test_context_and_agents(place: Any) -> None:
    """Context gets the bundle's name, relative paths are those of the bundle; agents are a roster by name."""
    place.write("project/bundle.md", "---\nbundle: {name: mine}\nincludes: [./behaviors/x.yaml]\n---\n")
    place.write(
        "project/behaviors/x.yaml",
        """\
bundle: {name: x}
context:
  include: [context/a.md, "mine:context/b.md", "late:c.md"]
  named: d.md
agents:
  include: [helper, "mine:other", loose]
  inline: {description: d}
""",
    )
    for path in ("context/a.md", "context/b.md", "behaviors/d.md", "agents/helper.md"):
        place.write(f"project/{path}", "text")
    bundle = await place.loader().load(".")
    assert bundle.context == {
        "x:context/a.md": place.project / "context" / "a.md",
        "mine:context/b.md": place.project / "context" / "b.md",
        "x:named": place.project / "behaviors" / "d.md",
    }
    assert bundle.pending_context == ("late:c.md",)
    assert "x.yaml:3: no bundle has brought the namespace 'late'" in "\n".join(bundle.warnings)
    assert bundle.agents == {"helper": {}, "mine:other": {}, "loose": {}, "inline": {"description": "d"}}
    assert bundle.agent_namespaces == {"helper": "mine", "loose": "x", "inline": "x"}
    assert "context" not in bundle.mount_plan()


async def test_missing_context_is_a_warning_with_its_line(place: Any) -> None:
    """A context file that is not there is told, and the bundle loads."""
    place.write("project/b.yaml", "bundle: {name: b}\ncontext:\n  a: ./gone.md\n")
    bundle = await place.loader().load("./b.yaml")
    assert bundle.warnings == (f"{place.project}/b.yaml:3: there is no context file {place.project}/gone.md",)


async def test_packages_are_roots_with_a_project_of_their_own(place: Any) -> None:
    """A root with a pyproject.toml that says so is a package; one for tools alone is none."""
    place.write("project/bundle.md", "---\nbundle: {name: a}\nincludes: [./sub]\n---\n")
    place.write("project/pyproject.toml", "[tool.ruff]\n")
    place.write("project/sub/bundle.md", "---\nbundle: {name: b}\n---\n")
    place.write("project/sub/pyproject.toml", "[project]\nname = 'b'\n")
    assert (await place.loader().load(".")).packages == (place.project / "sub",)
    place.write("project/sub/pyproject.toml", "[project\n")
    with pytest.raises(BundleError, match=r"pyproject\.toml: cannot be read as TOML"):
        await place.loader().load(".")


def test_plan_holds_only_what_is_not_empty(tmp_path: Path) -> None:
    """Empty sections are not in the plan, and changing a plan changes no bundle."""
    file = tmp_path / "b.yaml"
    file.write_text("tools:\nhooks: []\nsession: {a: {b: 1}}\norchestrator: {config: {x: 1}}\nspawn: {}\n")
    bundle = load_bundle_file(file)
    plan = bundle.mount_plan()
    assert plan == {"session": {"a": {"b": 1}}, "orchestrator": {"config": {"x": 1}}}
    plan["session"]["a"]["b"] = 2
    assert bundle.mount_plan()["session"]["a"]["b"] == 1
