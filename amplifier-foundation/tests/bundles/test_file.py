"""One bundle file."""

from pathlib import Path

import pytest

from amplifier_foundation.bundles import BundleError, load_bundle_file
from amplifier_foundation.bundles.shipped import default_bundle

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
    (tmp_path / "b").mkdir()
    file = tmp_path / "b" / "mine.yaml"
    file.write_text(_PLAN)
    bundle = load_bundle_file(file)
    assert (bundle.name, bundle.instruction) == ("mine", "")
    assert bundle.plan["tools"][0]["source"] == str(tmp_path / "tool-x")
    assert bundle.plan["session"]["context"]["source"] == str(tmp_path / "b" / "modules" / "context-simple")
    assert bundle.plan["providers"][0]["config"]["scenario"] == str(tmp_path / "b" / "run.yaml")
    assert "bundle" not in bundle.plan


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_markdown_file_is_plan_and_instruction(tmp_path: Path, newline: str, bom: str) -> None:
    """The front matter is the plan and the body the instruction, whatever the line ends and with a BOM too."""
    file = tmp_path / "mine.md"
    text = f"{bom}---\n{_PLAN}---\n\nBe careful.\n---\nStill body: ü\n"
    file.write_bytes(text.replace("\n", newline).encode())
    bundle = load_bundle_file(file)
    assert bundle.plan["session"]["orchestrator"] == {"module": "loop-basic"}
    assert bundle.instruction.replace("\r\n", "\n") == "Be careful.\n---\nStill body: ü"


def test_markdown_without_front_matter_is_an_instruction(tmp_path: Path) -> None:
    """A file without front matter is an empty plan with a body."""
    file = tmp_path / "mine.md"
    file.write_text("Just words.")
    bundle = load_bundle_file(file)
    assert (bundle.plan, bundle.instruction, bundle.name) == ({}, "Just words.", "mine")


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
        ("b.yaml", "- a\n- b\n", "a bundle is a mapping of keys, got list"),
        ("b.yaml", "sesion: {}\n", "unknown key 'sesion': did you mean 'session'?"),
        ("b.yaml", "includes: [x]\n", "'includes' cannot be resolved yet"),
        ("b.yaml", "tools: {a: 1}\n", "'tools' must be a list of modules, got dict"),
        ("b.yaml", "tools: [tool-x]\n", "tools[0] must be a mapping with a 'module', got 'tool-x'"),
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


def test_default_bundle_is_shipped() -> None:
    """The bundle that runs when none is named comes with the product and parses."""
    bundle = load_bundle_file(default_bundle())
    assert bundle.plan["session"]["orchestrator"]["module"] == "loop-streaming"
    assert bundle.instruction
