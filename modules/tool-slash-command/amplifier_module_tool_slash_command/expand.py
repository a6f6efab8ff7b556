"""Turn a command into a prompt: its arguments, the output of its shell commands, its files, and further commands.

The order matters. What a text brings in is data: a shell command is run only if it is in the file of a command, and
what an argument, an output or a file holds is never run, read or expanded.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from amplifier_kit.guard.files.configured_file import ConfiguredFile, Denied, denied_to_model, project_of
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import Struct
from amplifier_module_tool_slash_command.command_file import Command
from amplifier_module_tool_slash_command.shell import run_shell

__all__ = ["CommandError", "Expanded", "expand", "fill_arguments"]

_DEEPEST: Final = 3
_LARGEST: Final = 200_000
#: In a text with arguments: `{{$1 or "d"}}`, `$ARGUMENTS`, `$1`.
_ARGUMENT: Final = re.compile(r'\{\{\s*\$(\d+|ARGUMENTS)\s+or\s+"([^"]*)"\s*\}\}|\$(\d+|ARGUMENTS)')
#: In the text of a file: a shell command, a file, or a line that is another command.
_PART: Final = re.compile(
    r"!`(?P<shell>[^`\n]+)`|(?<![\w`])@(?P<file>[\w./~:-]+)|^/(?P<other>[\w:-]+)(?P<args>[ \t][^\n]*)?$", re.M
)


class CommandError(Exception):
    """A command cannot be executed; the message says why, for the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Expanded(Struct):
    """A prompt, and what went into it."""

    prompt: str
    bash_commands: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


class Surroundings(NamedTuple):
    """The session, its commands, and the limits."""

    coordinator: Any
    commands: Mapping[str, Command]
    timeout: float


def fill_arguments(text: str, args: str) -> str:
    """Return a text with its arguments in place; an argument that is missing is empty, or its default."""
    try:
        words = shlex.split(args)
    except ValueError:
        words = args.split()

    def value(match: re.Match[str]) -> str:
        name, default = match[1] or match[3], match[2] or ""
        if name == "ARGUMENTS":
            return args or default
        position = int(name)
        return words[position - 1] if 0 < position <= len(words) else default

    return _ARGUMENT.sub(value, text)


async def expand(command: Command, args: str, around: Surroundings, depth: int = 0) -> Expanded:
    """Return the prompt of a command; raises CommandError."""
    if depth > _DEEPEST:
        raise CommandError("too_deep", f"commands call each other more than {_DEEPEST} deep, at /{command.name}")
    made = Expanded("")
    parts: list[str] = []
    end = 0
    for match in _PART.finditer(command.body):
        parts.append(fill_arguments(command.body[end : match.start()], args))
        parts.append(await _part(match, command, args, around, made, depth))
        end = match.end()
    parts.append(fill_arguments(command.body[end:], args))
    made.prompt = "".join(parts)
    if command.max_chars is not None:
        made.prompt = made.prompt[: command.max_chars]
    return made


async def _part(
    match: re.Match[str], command: Command, args: str, around: Surroundings, made: Expanded, depth: int
) -> str:
    """Return what stands in place of one part of a command's file."""
    if match["shell"] is not None:
        return await _shell(match["shell"], command, args, around, made)
    if match["file"] is not None:
        return _file(match, command, around, made)
    other = around.commands.get(match["other"])
    if other is None:
        return fill_arguments(match[0], args)  # a path, or what only looks like a command
    if other.disable_model_invocation or (other.requires_approval and not command.requires_approval):
        why = "only the user may use it" if other.disable_model_invocation else "nobody was asked about it"
        raise CommandError("not_allowed", f"{command.file}: /{other.name} cannot be part of this command: {why}")
    inner = await expand(other, fill_arguments((match["args"] or "").strip(), args), around, depth + 1)
    made.bash_commands += inner.bash_commands
    made.files += inner.files
    return inner.prompt


async def _shell(line: str, command: Command, args: str, around: Surroundings, made: Expanded) -> str:
    if any(_is_quoted(line, match.start()) for match in _ARGUMENT.finditer(line)):
        raise CommandError("not_allowed", f"{command.file}: `{line}` has an argument in quotes: it is quoted by itself")
    filled = _ARGUMENT.sub(lambda match: shlex.quote(fill_arguments(match[0], args)), line).strip()
    # By the line as it is written: an argument must not make it another command.
    if not command.allows_shell(line.strip()):
        raise CommandError("not_allowed", f"{command.file}: `{line}` is not in its allowed-tools, as Bash({line})")
    made.bash_commands.append(filled)
    return await run_shell(around.coordinator, filled, around.timeout)


def _is_quoted(line: str, end: int) -> bool:
    """Return whether a place in a line is inside of quotes, where quoting it once more would open them."""
    if "$'" in line[:end]:  # other rules hold in such quotes
        return True
    quote, position = "", 0
    while position < end:
        character = line[position]
        if character == "\\" and quote != "'":
            position += 1
        elif character in ("'", '"') and quote in ("", character):
            quote = "" if quote else character
        position += 1
    return bool(quote)


def _file(match: re.Match[str], command: Command, around: Surroundings, made: Expanded) -> str:
    """Return the content of a file that the model may see; the mention itself for what is no file."""
    project = project_of(around.coordinator)
    path = Path(match["file"].rstrip(".,;:")).expanduser()
    trail = match["file"][len(match["file"].rstrip(".,;:")) :]
    absolute = path if path.is_absolute() else project / path
    if not absolute.is_file():
        return match[0]
    try:
        content = ConfiguredFile(absolute, project, _denied(command, around.coordinator)).read(_LARGEST)
    except OSError as error:
        raise CommandError("file_denied", f"{command.file}: @{match['file']} cannot be included: {error}") from error
    made.files.append(str(absolute))
    text = content.decode("utf-8", "replace").rstrip("\n")
    return f'<file path="{path}">\n{text}\n</file>{trail}'


def _denied(command: Command, coordinator: Any) -> Denied | None:
    """Return the check for files that a command may include: like every other text, one that the user did not write
    reaches only the project and what lies beside it, and what rules allow.
    """
    denied = denied_to_model(coordinator)
    if denied is None or command.source == "user":
        return denied
    root = str(command.project or command.file.parent)
    return lambda path, _: denied(path, root)
