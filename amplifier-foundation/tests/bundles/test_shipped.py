"""Everything that ships is in order, needs no network, and is found wherever the product is installed."""

import re
from pathlib import Path

import pytest

from amplifier_foundation.bundles.checks import check_bundle
from amplifier_foundation.bundles.file import read_bundle_file
from amplifier_foundation.bundles.shipped import (
    SHIPPED_NAMESPACE,
    fallback_namespaces,
    shipped_bundles,
    shipped_skills,
    shipped_uri,
)
from amplifier_foundation.documents import read_document
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepare import Options, compose

ROOT = SHIPPED_NAMESPACE[1]
FOUNDATION = ROOT / "foundation"
BEHAVIORS = [
    *(f"amplifier:behaviors/{path.stem}" for path in sorted((ROOT / "behaviors").iterdir())),
    *(f"foundation:behaviors/{path.stem}" for path in sorted((FOUNDATION / "behaviors").iterdir())),
]
#: What agents of published bundles mention.
MENTIONED = (
    *(f"agents/{name}" for name in (
        "delegation-instructions", "multi-agent-patterns", "session-storage-knowledge", "session-repair-knowledge",
    )),
    *(f"shared/{name}" for name in ("common-system-base", "common-agent-base", "PROBLEM_SOLVING_PHILOSOPHY")),
    *(f"{name}_PHILOSOPHY" for name in ("IMPLEMENTATION", "MODULAR_DESIGN", "KERNEL", "LANGUAGE")),
    "ISSUE_HANDLING",
    "bundle-awareness",
)  # fmt: skip

#: The tools and hooks that the bundles `anchors` and `foundation` share, and what each has besides.
_TOOLS = "filesystem bash web search todo apply-patch delegate skills mode recipes"
_HOOKS = "todo-reminder todo-display session-naming mode streaming-ui status-context redaction logging"
_MORE = {
    "anchors": ("", "hooks-approval"),
    "foundation": ("mcp", "hooks-routing hooks-deprecation hook-shell"),
}


def test_every_shipped_bundle_is_listed() -> None:
    """What lies beside the default bundle is known by its name, and the name is its own."""
    bundles = shipped_bundles()
    assert sorted(bundles.values()) == sorted([*ROOT.glob("*.md"), *ROOT.glob("*/bundle.md")])
    assert {name: read_bundle_file(path).data["bundle"]["name"] for name, path in bundles.items()} == {
        name: name for name in bundles
    }


@pytest.mark.parametrize(
    "path",
    sorted([*ROOT.glob("*.md"), *ROOT.glob("*/bundle.md"), *ROOT.glob("**/behaviors/*")]),
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_shipped_files_are_strictly_right(path: Path) -> None:
    """No shipped file has an unknown key or a source that would have to be fetched."""
    document = read_bundle_file(path)
    assert check_bundle(document, "product") == []
    assert "source:" not in path.read_text(encoding="utf-8")
    assert document.data["bundle"]["description"]


@pytest.mark.parametrize("behavior", BEHAVIORS)
async def test_every_behavior_can_be_included(tmp_path: Path, behavior: str) -> None:
    """`amplifier:behaviors/x` and `foundation:behaviors/x` work in any bundle, without a warning."""
    (tmp_path / "bundle.yaml").write_text(
        f"bundle: {{name: mine}}\nincludes: ['{behavior}']\n"
        "session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
    )
    composition = await compose(Options(Home(tmp_path / "home"), tmp_path, bundle="bundle.yaml", environ={}))
    assert composition.warnings == ()
    assert composition.refusals == ()
    assert composition.composed.modules == ()


@pytest.mark.parametrize("name", ["anchors", "foundation"])
async def test_the_published_bundles_have_the_modules_of_their_names(tmp_path: Path, name: str) -> None:
    """Each has every tool and hook that the published bundle has, without those of other repositories."""
    composition = await compose(Options(Home(tmp_path / "home"), tmp_path, bundle=name, environ={}))
    plan = composition.composed.plan
    more_tools, more_hooks = _MORE[name]
    tools = {*f"{_TOOLS} {more_tools}".split()}
    hooks = {*(f"hooks-{hook}" for hook in _HOOKS.split()), *more_hooks.split()}
    assert {entry["module"].removeprefix("tool-") for entry in plan["tools"]} == tools
    assert {entry["module"] for entry in plan["hooks"]} == hooks


def test_every_agent_and_skill_has_its_front_matter() -> None:
    """Agents say what they are for, and so do skills."""
    agents = sorted(ROOT.glob("**/agents/*.md"))
    agents = [path for path in agents if "context" not in path.parts]
    assert [path.suffix for path in agents] == [".md"] * len(agents)
    for path in agents:
        document = read_document(path)
        assert document.data["meta"]["description"]
        assert document.body
    skills = list(shipped_skills().glob("*/SKILL.md"))
    assert skills
    for path in skills:
        assert {"name", "description"} <= read_document(path).data.keys()


async def test_bundles_mention_files_of_foundation_without_including_it(tmp_path: Path) -> None:
    """Every file that published agents mention is there, and `@foundation:` leads to it in any bundle."""
    (tmp_path / "bundle.yaml").write_text(
        "bundle: {name: mine}\nsession: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
    )
    composition = await compose(Options(Home(tmp_path / "home"), tmp_path, bundle="bundle.yaml", environ={}))
    root = Path(composition.composed.namespaces["foundation"])
    assert [name for name in MENTIONED if not (root / "context" / f"{name}.md").is_file()] == []


async def test_a_bundle_named_foundation_is_used_instead(tmp_path: Path) -> None:
    """Who has fetched or written a bundle of that name gets its files, not the shipped ones."""
    (tmp_path / "bundle.yaml").write_text(
        "bundle: {name: foundation}\nsession: {orchestrator: {module: loop-basic}, context: {module: context-simple}}\n"
    )
    composition = await compose(Options(Home(tmp_path / "home"), tmp_path, bundle="bundle.yaml", environ={}))
    assert Path(composition.composed.namespaces["foundation"]) == tmp_path


@pytest.mark.parametrize("name", sorted(fallback_namespaces()))
def test_mentions_in_shipped_files_lead_to_files(name: str) -> None:
    """No shipped instruction mentions a file that is missing."""
    mentions = {
        mention
        for path in fallback_namespaces()[name].rglob("*.md")
        for mention in re.findall(r"^@([\w-]+:\S+\.md)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert mentions
    roots = fallback_namespaces()
    assert [one for one in mentions if not (roots[one.partition(":")[0]] / one.partition(":")[2]).is_file()] == []


def test_an_address_does_not_say_where_the_product_lies() -> None:
    """A shipped file is known by its namespace; anything else by its own address."""
    assert shipped_uri(str(ROOT / "default.md")) == "amplifier:default.md"
    assert shipped_uri(f"{ROOT}-other/default.md") == f"{ROOT}-other/default.md"
    assert shipped_uri("git+https://host/x@main") == "git+https://host/x@main"
