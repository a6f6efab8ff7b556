"""What `amplifier-core` prints and how it exits."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from amplifier_core.cli import VALIDATORS, cli, main

GOOD = """
class T:
    name = "t"
    description = "d"
    async def execute(self, input): ...
async def mount(coordinator, config=None):
    await coordinator.mount("tools", T())
"""


def write(tmp_path: Path, source: str) -> Path:
    """Write a single-file module with a unique name."""
    file = tmp_path / f"case_{uuid.uuid4().hex}.py"
    file.write_text(source)
    return file


def run(*arguments: str | Path) -> Result:
    """Run the command in this process."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_valid_module(tmp_path: Path) -> None:
    """A valid module is reported check by check, and the command exits with 0."""
    file = write(tmp_path, GOOD)
    result = run("validate", "tool", file)
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[:5] == [
        f"Validating tool module: {file}",
        "",
        "PASSED: 8/8 checks passed (0 errors, 0 warnings)",
        "",
        f"  ✓ [info]      module_importable: Module loaded from {file}",
    ]
    assert len(lines) == 12


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_quiet(tmp_path: Path, flag: str) -> None:
    """Quiet means the summary without the checks."""
    result = run("validate", "tool", write(tmp_path, GOOD), flag)
    assert result.stdout.splitlines()[2:] == ["PASSED: 8/8 checks passed (0 errors, 0 warnings)"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tool", "no-such-path"), "Path 'no-such-path' does not exist"),
        (("nonsense", "."), "'nonsense' is not one of 'provider', 'tool', 'hook', 'orchestrator', 'context'"),
    ],
)
def test_bad_usage(arguments: tuple[str, str], message: str) -> None:
    """A wrong type or path is a usage error, which says what is right."""
    result = run("validate", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("source", ["import sys; sys.exit(0)", "async def mount(c, config): raise SystemExit(0)"])
def test_module_that_exits_is_not_taken_for_a_pass(tmp_path: Path, source: str) -> None:
    """A module that ends the program with status 0 still fails."""
    file = write(tmp_path, source)
    result = run("validate", "tool", file)
    assert result.exit_code == 1
    assert f"The module at {file} ended the program (SystemExit: 0)" in result.stderr


@pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "✓"), ("ascii", "✓"), ("cp1252", "+"), ("latin-1", "+")])
def test_output_survives_any_encoding(tmp_path: Path, encoding: str, sign: str) -> None:
    """A terminal that lacks the signs, or a name's characters, gets plainer ones instead of a traceback."""
    file = write(tmp_path, GOOD.replace('name = "t"', 'name = "見る\\ud800"'))
    done = subprocess.run(
        [sys.executable, "-c", "from amplifier_core.cli import main; main()", "validate", "tool", str(file)],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    lines = done.stdout.decode("utf-8" if encoding == "ascii" else encoding).splitlines()
    assert lines[2] == "PASSED: 8/8 checks passed (0 errors, 0 warnings)"
    assert lines[5] == f"  {sign} [info]      mount_exists: mount() function found"
    assert len(lines) == 12


def test_main_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The console script runs the group on the program's arguments."""
    monkeypatch.setattr(sys, "argv", ["amplifier-core", "list-types"])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 0
    assert "orchestrator" in capsys.readouterr().out


def test_list_types() -> None:
    """The five types are listed with a description each."""
    result = run("list-types")
    assert result.exit_code == 0
    assert result.stdout.startswith("Available module types:\n\n")
    listed = [line.split(maxsplit=1) for line in result.stdout.splitlines()[2:]]
    assert [name for name, _ in listed] == ["provider", "tool", "hook", "orchestrator", "context"]
    assert list(VALIDATORS) == [name for name, _ in listed]
    assert all(description for _, description in listed)
