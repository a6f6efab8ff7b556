"""Everything that ships is in order, needs no network, and is found wherever the product is installed."""

from pathlib import Path

import pytest

from amplifier_foundation.bundles.checks import check_bundle
from amplifier_foundation.bundles.file import read_bundle_file
from amplifier_foundation.bundles.shipped import (
    SHIPPED_NAMESPACE,
    shipped_bundles,
    shipped_skills,
    shipped_uri,
)
from amplifier_foundation.documents import read_document
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, compose

ROOT = SHIPPED_NAMESPACE[1]
BEHAVIORS = sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / "behaviors").iterdir())


def test_every_shipped_bundle_is_listed() -> None:
    """What lies beside the default bundle is known by its name, and the name is its own."""
    bundles = shipped_bundles()
    assert sorted(bundles.values()) == sorted(ROOT.glob("*.md"))
    assert {name: read_bundle_file(path).data["bundle"]["name"] for name, path in bundles.items()} == {
        name: name for name in bundles
    }


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("behaviors/*")]), ids=lambda path: path.name)
def test_shipped_files_are_strictly_right(path: Path) -> None:
    """No shipped file has an unknown key or a source that would have to be fetched."""
    document = read_bundle_file(path)
    assert check_bundle(document, "product") == []
    assert "source:" not in path.read_text(encoding="utf-8")
    assert document.data["bundle"]["description"]


@pytest.mark.parametrize("behavior", BEHAVIORS)
async def test_every_behavior_can_be_included(tmp_path: Path, behavior: str) -> None:
    """`amplifier:behaviors/x` works in the bundle of anybody, without a warning."""
    (tmp_path / "bundle.yaml").write_text(
        f"bundle: {{name: mine}}\nincludes: ['amplifier:{behavior}']\n"
        "session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
    )
    composition = await compose(Options(Home(tmp_path / "home"), tmp_path, bundle="bundle.yaml", environ={}))
    assert composition.warnings == ()
    assert composition.refusals == ()
    assert composition.composed.modules == ()


def test_every_agent_and_skill_has_its_front_matter() -> None:
    """Agents say what they are for, and so do skills."""
    agents = sorted((ROOT / "agents").iterdir())
    assert [path.suffix for path in agents] == [".md"] * len(agents)
    for path in agents:
        document = read_document(path)
        assert document.data["meta"]["description"]
        assert document.body
    skills = list(shipped_skills().glob("*/SKILL.md"))
    assert skills
    for path in skills:
        assert {"name", "description"} <= read_document(path).data.keys()


def test_an_address_does_not_say_where_the_product_lies() -> None:
    """A shipped file is known by its namespace; anything else by its own address."""
    assert shipped_uri(str(ROOT / "default.md")) == "amplifier:default.md"
    assert shipped_uri(f"{ROOT}-other/default.md") == f"{ROOT}-other/default.md"
    assert shipped_uri("git+https://host/x@main") == "git+https://host/x@main"
