"""What the program imports when little is asked of it, and that its tree of commands is whole."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from amplifier_app_cli.command_tree import LazyGroup
from amplifier_app_cli.main import main

HEAVY = (
    "pydantic",
    "prompt_toolkit",
    "rich",
    "amplifier_core.models",
    "mcp",
    "anthropic",
    "openai",
    "google.genai",
    "ollama",
    "httpx2",
    "orjson",
    "ruamel",
)
SMALL = ("asyncio", "yaml", "json", "amplifier_foundation.settings", "importlib.metadata")


def _imported(project: Path, environment: dict[str, str], *arguments: str) -> set[str]:
    """Return the modules that a run of the program has imported when it ends."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('\\n'.join(sorted(sys.modules)), file=sys.stderr))\n"
        "from amplifier_app_cli.main import main\n"
        f"main({list(arguments)!r}, prog_name='amplifier')\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(result.stderr.splitlines())


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("session", "list"), ("run", "--help")])
def test_nothing_heavy_is_imported(project: Path, environment: dict[str, str], arguments: tuple[str, ...]) -> None:
    """Help, version and the list of sessions import no library of models, terminals or servers."""
    imported = _imported(project, environment, *arguments)
    assert "amplifier_app_cli.main" in imported
    found = {name for name in imported if any(name == heavy or name.startswith(f"{heavy}.") for heavy in HEAVY)}
    assert not found


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("session", "--help"), ("run", "--help")])
def test_help_imports_next_to_nothing(project: Path, environment: dict[str, str], arguments: tuple[str, ...]) -> None:
    """Help and version import neither the event loop nor what reads files."""
    imported = _imported(project, environment, *arguments)
    assert not imported & {*SMALL} - ({"json"} if arguments[0] == "run" else set())


def test_the_list_of_sessions_reads_no_yaml(project: Path, environment: dict[str, str]) -> None:
    """The list of sessions imports neither the event loop nor a YAML reader."""
    assert not _imported(project, environment, "session", "list") & {"asyncio", "yaml"}


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=path)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, f"{path} {name} is listed and not there"
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}")


ALL = dict(_commands(main, "amplifier"))


@pytest.mark.parametrize("path", sorted(ALL))
def test_every_command_shows_an_example_of_itself(path: str) -> None:
    """Every command there is can be imported, and its help has an example that names it."""
    command = ALL[path]
    assert command.help, path
    assert "Example" in command.help
    names = [path, path.replace("amplifier session resume", "amplifier resume")]
    assert any(name in command.help for name in names), command.help


@pytest.mark.parametrize("path", sorted(path for path, command in ALL.items() if isinstance(command, LazyGroup)))
def test_summaries_are_one_sentence(path: str) -> None:
    """What the list of commands says of each is one sentence that fits a line."""
    group = ALL[path]
    assert isinstance(group, LazyGroup)
    for name, entry in group.entries.items():
        assert entry.summary.endswith("."), name
        assert entry.summary[0].isupper(), name
        assert len(entry.summary) <= 100, name
