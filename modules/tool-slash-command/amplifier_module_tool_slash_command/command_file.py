"""Find the commands of a session: Markdown files in the folders of the project, the user and the config."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await, plain_result
from amplifier_kit.config import Config, Count, Text, Texts, read_config
from amplifier_kit.front_matter import decoded, parse_front_matter
from amplifier_kit.guard.files.configured_file import ConfiguredFile, denied_to_model, project_of
from amplifier_kit.guard.project_trust import is_project_trusted, project_around
from amplifier_kit.home import amplifier_home
from amplifier_kit.struct import FrozenStruct

__all__ = ["Command", "CommandFiles", "parse_command"]

_LARGEST: Final = 200_000
#: An app that fetches sources offers `capability(uri)`, which returns a folder or None.
_FETCH: Final = "skills.resolve_source"
#: The capability of an app that knows who configured a module.
_TRUSTED: Final = "plan.is_trusted"
_REMOTE: Final = ("git+", "http://", "https://", "ssh://")
_HEADERS: Final = {"allowed-tools", "argument-hint", "max-chars", "requires-approval", "disable-model-invocation"}
_SPLIT: Final = re.compile(r",\s*(?![^(]*\))")


class _FrontMatter(Config):
    """The keys at the top of a command."""

    description: Text
    allowed_tools: Texts = ()
    argument_hint: str = ""
    model: Text | None = None
    max_chars: Count | None = None
    requires_approval: bool = False
    disable_model_invocation: bool = False


class Command(FrozenStruct):
    """One command."""

    name: str
    description: str
    body: str
    file: Path
    #: `project`, `user` or `config`.
    source: str
    #: The project that the file is in; None for a file of the user.
    project: Path | None = None
    #: The shell commands that its text may run, such as `Bash(git add:*)`.
    allowed_tools: tuple[str, ...] = ()
    argument_hint: str = ""
    model: str | None = None
    max_chars: int | None = None
    requires_approval: bool = False
    disable_model_invocation: bool = False

    def allows_shell(self, line: str) -> bool:
        """Return whether `allowed-tools` names a shell command: all of them, it, or what it begins with."""
        for entry in self.allowed_tools:
            name, has_pattern, rest = entry.partition("(")
            if name.strip().lower() != "bash":
                continue
            pattern = rest.rstrip(") ").strip()
            if not has_pattern or pattern in ("*", line):
                return True
            prefix = pattern.removesuffix(":*")
            if prefix != pattern and (line == prefix or line.startswith(f"{prefix} ")):
                return True
        return False


def parse_command(file: Path, content: bytes, source: str, name: str, project: Path | None = None) -> Command:
    """Return the command that a file describes; raises ValueError that says what is wrong."""
    front = parse_front_matter(content)
    given = {key.replace("-", "_") if key in _HEADERS else key: value for key, value in front.data.items()}
    tools = given.get("allowed_tools")
    if isinstance(tools, str):  # a comma inside of parentheses belongs to the pattern
        given["allowed_tools"] = [each.strip() for each in _SPLIT.split(tools) if each.strip()]
    keys = read_config(_FrontMatter, given, module=str(file))
    body = decoded(content[front.length :], 1 + content.count(b"\n", 0, front.length)).strip()
    values: dict[str, Any] = {key: getattr(keys, key) for key in _FrontMatter.model_fields}
    return Command(name=name, body=body, file=file, source=source, project=project, **values)


class CommandFiles:
    """The commands of a session; the first of a name counts. Files of the project count only if it is trusted."""

    def __init__(self, coordinator: Any, sources: tuple[str, ...]) -> None:
        self._coordinator = coordinator
        self._sources = sources
        #: Why files were left out, each with its path.
        self.problems: list[str] = []

    async def find_all(self) -> dict[str, Command]:
        """Return the commands by name, read from the disk."""
        self.problems = []
        found: dict[str, Command] = {}
        for folder, source in await self._folders():
            for command in self._in(folder, source):
                found.setdefault(command.name, command)
        return found

    async def _folders(self) -> list[tuple[Path, str]]:
        project = project_of(self._coordinator)
        home = Path(str(self._coordinator.get_capability("amplifier.home") or amplifier_home()))
        folders = [(project / ".amplifier" / "commands", "project"), (home / "commands", "user")]
        ask = self._coordinator.get_capability(_TRUSTED)
        if self._sources and ask is not None and plain_result(ask("tool-slash-command")) is not True:
            self.problems.append("commands: left out, a project that is not trusted has had a say in where they are")
            return folders
        for source in self._sources:
            found = await self._folder(project, source)
            if found is None:
                self.problems.append(f"commands: {source!r} does not lead to a folder")
            else:
                folders.append((found, "config"))
        return folders

    async def _folder(self, project: Path, source: str) -> Path | None:
        if source.startswith(_REMOTE):
            fetch = self._coordinator.get_capability(_FETCH)
            found = await maybe_await(fetch(source)) if fetch is not None else None
        elif source.startswith("@"):
            resolver = self._coordinator.get_capability("mention_resolver")
            found = await maybe_await(resolver.resolve(source)) if resolver is not None else None
        else:
            found = _local(project, source)
        return Path(found) if found is not None else None

    def _in(self, folder: Path, source: str) -> Iterator[Command]:
        files = sorted(folder.rglob("*.md")) if folder.is_dir() else []
        if not files:
            return
        project = project_around(self._coordinator, folder)
        if project is not None and not is_project_trusted(self._coordinator):
            self.problems.append(f"{folder} is left out: the project is not trusted; `amplifier trust` looks at it")
            return
        for file in files:
            # As other agents have it: the command of `git/commit.md` is `git:commit`.
            name = ":".join(file.relative_to(folder).with_suffix("").parts)
            try:
                content = ConfiguredFile(file, project, denied_to_model(self._coordinator)).read(_LARGEST)
                yield parse_command(file, content, source, name, project)
            except (OSError, ValueError) as error:
                line = f":{error.line}" if hasattr(error, "line") else ""
                self.problems.append(f"{file}{line}: {error}")


def _local(project: Path, source: str) -> Path:
    return project / os.path.expanduser(source)
