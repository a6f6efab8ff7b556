"""What is written for the published Amplifier works here: stand-ins in its forms run, and no rule is loosened."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from . import compat

STAND_INS = Path(__file__).parent / "stand_ins"
Run = Callable[..., subprocess.CompletedProcess[str]]


def test_every_stand_in_works(tmp_path: Path) -> None:
    """Modules of each kind run, bundle files load and agents are valid; the folder is as before; the table has them."""
    before = {path: path.stat().st_mtime_ns for path in STAND_INS.rglob("*")}
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n<!-- section: published -->\nold\n<!-- end: published -->\n\nThe rest.\n")
    command = [sys.executable, "-m", "published.compat", str(STAND_INS), "--offline", "--write", "--page", str(page)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 of 6 modules run, 6 of 6 bundle files load, 2 of 2 agents are valid" in done.stdout
    written = page.read_text()
    assert "| module | `loop-census` | yes |  |" in written
    assert "old" not in written
    assert written.endswith("The rest.\n")
    assert {path: path.stat().st_mtime_ns for path in STAND_INS.rglob("*")} == before


def test_what_does_not_work_is_named_with_the_reason(tmp_path: Path) -> None:
    """A broken module, bundle and agent are each one line with the reason and without a folder of this machine."""
    source = tmp_path / "checkouts"
    shutil.copytree(STAND_INS / "amplifier-module-tool-census", source / "amplifier-module-tool-census")
    package = source / "amplifier-module-tool-census" / "amplifier_module_tool_census" / "__init__.py"
    package.write_text("raise RuntimeError('not today')\n")
    (source / "garden" / "agents").mkdir(parents=True)
    (source / "garden" / "bundle.yaml").write_text("bundle: {name: garden}\nincludes: [missing-one]\n")
    (source / "garden" / "agents" / "a.md").write_text("---\nmeta: {name: a, description: d}\ntools: 3\n---\nText.\n")
    problems = {(one.kind, one.name): one.problem for one in compat.check(source, offline=True)}
    assert "not today" in problems["module", "tool-census"]
    assert "missing-one" in problems["bundle", "garden/bundle.yaml"]
    assert "garden/agents/a.md:3" in problems["agent", "garden/agents/a.md"]
    assert not any(str(tmp_path) in problem or "home/cache" in problem for problem in problems.values())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Give `run(*arguments)`: the program in a project whose bundle takes the stand-in tool from a folder of it."""
    project = tmp_path / "project"
    project.mkdir()
    shutil.copytree(STAND_INS / "amplifier-module-tool-census", project / "census")
    call = {"name": "census", "arguments": {"text": "one two three"}}
    scenario = {"turns": [{"tool_calls": [call]}, {"text": "Counted."}]}
    (project / "scenario.yaml").write_text(yaml.safe_dump(scenario))
    bundle = {
        "bundle": {"name": "published"},
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"scenario": "./scenario.yaml"}}],
        "tools": [{"module": "tool-census", "source": "./census"}],
        "hooks": [{"module": "hooks-logging"}, {"module": "hooks-approval", "config": {"default_action": "continue"}}],
    }
    (project / "bundle.yaml").write_text(yaml.safe_dump(bundle))
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("AMPLIFIER", "PYTEST"))}

    def start(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "amplifier_app_cli", *arguments]
        return subprocess.run(
            command,
            cwd=project,
            env={**environ, "HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=100,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    return start


def test_code_of_a_project_needs_trust(run: Run) -> None:
    """A module that the project's bundle takes from a folder is not even imported without trust."""
    done = run("run", "-B", "./bundle.yaml", "count")
    assert done.returncode == 6
    assert "tool-census" in done.stderr
    assert "trust" in done.stderr


def test_a_tool_without_a_rule_is_asked_for(run: Run) -> None:
    """A trusted bundle whose approval hook lets everything through runs no unknown tool: the call waits."""
    done = run("run", "-B", "./bundle.yaml", "--trust", "count")
    assert done.returncode == 3
    assert "census" in done.stderr


def test_a_tool_with_a_rule_runs(run: Run) -> None:
    """Once the user allows it, it runs."""
    assert run("policy", "allow", "tool census").returncode == 0
    done = run("run", "-B", "./bundle.yaml", "--trust", "--json", "count")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["status"] == "success"
