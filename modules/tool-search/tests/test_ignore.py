"""The engine of our own ignores what git ignores."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_search import mount

NAMES = ("a", "b.py", "c.log", "build", "x y", "é", "#a", "!b")
RULES = (
    *("*.log", "build/", "/src", "src/*.py", "!b.py", "**/a", "lib/**", "!lib/a", "*", "!*/", "!*.py", "# note", ""),
    *("[a-c]*", "?.py", "x\\ y", "x y  ", "lib/**/a", "/lib/src/", "!build/", "\\#a", "\\!b", "*.l*", "src/", "!src"),
    *("/*", "!/src/", "lib/a", "**", "deep", "a/", "!a", "*/build", "**/src/a", "é", "[!a]", "a*b", "src/**/b.py"),
)

paths = st.builds(
    lambda folders, name: "/".join([*folders, name]),
    st.lists(st.sampled_from(["src", "lib", "deep", "build"]), max_size=3),
    st.sampled_from(NAMES),
)
rule_files = st.dictionaries(
    st.sampled_from([".gitignore", "src/.gitignore", "lib/src/.gitignore"]),
    st.lists(st.sampled_from(RULES), min_size=1, max_size=5).map("\n".join),
    min_size=1,
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@given(files=st.sets(paths, min_size=1, max_size=10), rules=rule_files)
async def test_same_as_git(files: set[str], rules: dict[str, str]) -> None:
    """The files listed are those that git would add, for any rules in any folders."""
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted(files) + sorted(rules):
            path = Path(folder, name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(rules.get(name, ""), encoding="utf-8")
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # a name is taken by a file or a folder
        environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "HOME": folder}
        await asyncio.to_thread(subprocess.run, ["git", "init", "--quiet", folder], check=True, env=environment)
        ls = ["git", "-C", folder, "ls-files", "--others", "--exclude-standard", "-z"]
        told = await asyncio.to_thread(subprocess.run, ls, check=True, env=environment, capture_output=True)
        listed = told.stdout.decode().split("\0")[:-1]
        coordinator: MockCoordinator = MockCoordinator()
        coordinator.register_capability("session.working_dir", os.path.realpath(folder))
        await mount(coordinator, {"engine": "python", "glob": {"exclusions": [".git"]}})
        result = await coordinator.get("tools", "glob").execute({"pattern": "**"})
        assert sorted(match["path"] for match in result.output["matches"]) == sorted(listed)
