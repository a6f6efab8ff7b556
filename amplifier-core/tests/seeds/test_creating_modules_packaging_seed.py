"""Creating modules: the directory structure, pyproject.toml, its entry point, and sources in a behavior."""

from __future__ import annotations

import logging
import tomllib
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ModuleLoader


def pyproject(template: str, name: str) -> str:
    """Fill in the module's name: underscores in package names, dashes everywhere else."""
    package = f"amplifier_module_tool_{name.replace('-', '_')}"
    return template.replace("amplifier_module_tool_{name}", package).replace("{name}", name)


def install_distribution(site: Path, project: dict[str, Any]) -> None:
    """Leave behind what an installer leaves behind for a project: its metadata and its entry points."""
    about = project["project"]
    info = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in entries.items())
        for group, entries in about["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


def test_pyproject_wires_the_name_to_mount(example: Any) -> None:
    """The example parses, declares the entry point of its module and no dependency on the kernel."""
    project = tomllib.loads(pyproject(example("pyproject"), "my-tool"))
    assert project["project"]["name"] == "amplifier-module-tool-my-tool"
    assert project["project"]["dependencies"] == []
    assert project["project"]["entry-points"] == {
        "amplifier.modules": {"tool-my-tool": "amplifier_module_tool_my_tool:mount"}
    }
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["amplifier_module_tool_my_tool"]


async def test_entry_point_is_found_when_installed(bench: Any, example: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Installed, the module is discovered and loaded by its entry point."""
    bench.install("tool-my-tool", example("minimum"))
    install_distribution(bench.site, tomllib.loads(pyproject(example("pyproject"), "my-tool")))
    found = {info.id: info for info in await ModuleLoader().discover()}
    assert (found["tool-my-tool"].type, found["tool-my-tool"].mount_point) == ("tool", "tools")
    with caplog.at_level(logging.INFO, logger="amplifier_core.loader"):
        async with bench.session(bench.plan(tools=["tool-my-tool"])) as session:
            assert await session.execute("my_tool") == "Not yet implemented"
    assert "Loaded module 'tool-my-tool' from entry point" in caplog.messages


async def test_entry_point_gives_the_package_any_name(bench: Any, example: Any, record: Any) -> None:
    """With the entry point a package of another name is found by the module's id; without it, it is not."""
    bench.install("other-name", example("minimum"))
    session = bench.session(bench.plan(tools=["tool-my-tool"]))
    heard = record(session)
    async with session:
        pass
    (failure,) = heard.data("module:load_failed")
    assert failure["error"].startswith("Module 'tool-my-tool' not found via entry points or filesystem")
    assert failure["reason_code"] == "missing_source"
    wired = pyproject(example("pyproject"), "my-tool").replace(
        "amplifier_module_tool_my_tool", "amplifier_module_other_name"
    )
    install_distribution(bench.site, tomllib.loads(wired))
    async with bench.session(bench.plan(tools=["tool-my-tool"])) as session:
        assert await session.execute("my_tool") == "Not yet implemented"


def write_repository(bench: Any, example: Any, name: str = "minimum") -> Path:
    folder: Path = bench.folder("tool-my-tool", example(name))
    (folder / "pyproject.toml").write_text(pyproject(example("pyproject"), "my-tool"), encoding="utf-8")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_mount.py").write_text(example("unit_tests"), encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["minimum", "placeholder", "complete"])
def test_the_examples_pass_the_examples_own_tests(bench: Any, example: Any, run_pytest: Any, name: str) -> None:
    """The two unit tests, run by pytest in the documented directory structure, pass for all three examples."""
    folder = write_repository(bench, example, name)
    code, output = run_pytest(folder, folder)
    assert code == 0, output
    assert "2 passed" in output


def test_the_examples_own_tests_catch_a_stub(bench: Any, run_pytest: Any, example: Any) -> None:
    """The same two tests fail for a mount() that logs and returns None."""
    folder = write_repository(bench, example)
    package = folder / "amplifier_module_tool_my_tool" / "__init__.py"
    package.write_text("async def mount(coordinator, config=None):\n    return None\n", encoding="utf-8")
    code, output = run_pytest(folder, folder)
    assert code == 1, output
    assert "2 failed" in output


async def test_relative_source_of_a_behavior(bench: Any, example: Any) -> None:
    """`source: ./modules/tool-{name}` reaches the resolver as written and loads the folder below the bundle's root."""
    write_repository(bench, example)
    entry = {"module": "tool-my-tool", "source": "./modules/tool-my-tool"}
    session = bench.session(bench.plan(tools=[entry]))
    await session.coordinator.mount("module-source-resolver", bench.resolver)
    async with session:
        assert bench.resolver.asked["tool-my-tool"] == "./modules/tool-my-tool"
        assert await session.execute("my_tool") == "Not yet implemented"


async def test_git_source_of_a_behavior(bench: Any, record: Any) -> None:
    """A git source is the resolver's business too: passed on untouched, and what it says is what is reported."""
    source = "git+https://example.org/org/repo@main#subdirectory=modules/tool-my-tool"
    session = bench.session(bench.plan(tools=[{"module": "tool-my-tool", "source": source}]))
    heard = record(session)
    await session.coordinator.mount("module-source-resolver", bench.resolver)
    async with session:
        assert bench.resolver.asked["tool-my-tool"] == source
    (failure,) = heard.data("module:load_failed")
    assert (failure["error"], failure["reason_code"]) == ("no source for 'tool-my-tool'", "missing_source")


async def test_folder_without_a_package_is_refused(bench: Any, record: Any) -> None:
    """A folder that lacks the package of the directory structure is named in the refusal."""
    (bench.root / "modules" / "tool-my-tool").mkdir(parents=True)
    entry = {"module": "tool-my-tool", "source": "modules/tool-my-tool"}
    session = bench.session(bench.plan(tools=[entry]))
    heard = record(session)
    await session.coordinator.mount("module-source-resolver", bench.resolver)
    async with session:
        pass
    (failure,) = heard.data("module:load_failed")
    folder = bench.root / "modules" / "tool-my-tool"
    assert failure["error"] == f"Module 'tool-my-tool' has no valid Python package at {folder}"
    assert failure["reason_code"] == "invalid_package_layout"
