"""The tool `slash_command`: list the commands, and turn one into the prompt that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from amplifier_core.models import ToolResult
from amplifier_module_tool_slash_command.command_file import Command, CommandFiles
from amplifier_module_tool_slash_command.config import SlashCommandConfig
from amplifier_module_tool_slash_command.expand import CommandError, Surroundings, expand
from amplifier_module_tool_slash_command.shell import ShellError

_DESCRIPTION: Final = """\
Use the commands that the user and the project keep as files: prompts for recurring work.

- list: the commands there are, each with what it does and takes.
- execute: the prompt of `command`, with `args` in place. Follow it as if the user had typed it.

Execute a command when the user names it (`/review 12`) or asks for exactly what it does."""


class SlashCommandTool:
    """Use the commands of one session."""

    name = "slash_command"
    description = _DESCRIPTION
    input_schema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {
            "operation": {"type": "string", "enum": ["execute", "list"]},
            "command": {"type": "string", "description": "The name, without its slash; needed to execute"},
            "args": {"type": "string", "description": "What the user typed behind it"},
        },
        "required": ["operation"],
    }

    def __init__(self, coordinator: Any, settings: SlashCommandConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._files = CommandFiles(coordinator, settings.commands)
        #: The commands that the user wants to be asked about, as found last.
        self._asked: frozenset[str] | None = None

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        """Do what `operation` says; what is wrong is in the result."""
        given = input if isinstance(input, Mapping) else {}
        operation = given.get("operation")
        if operation not in ("execute", "list"):
            shown = "nothing" if operation is None else repr(operation)[:100]
            return _failure("invalid_operation", f"'operation' must be execute or list, got {shown}")
        commands = await self._known()
        if operation == "list":
            return ToolResult(output={"commands": [_listed(command) for command in _for_model(commands)]})
        return await self._execute(given, commands)

    async def _execute(self, given: Mapping[str, Any], commands: Mapping[str, Command]) -> ToolResult:
        name, args = _name(given.get("command")), given.get("args") or ""
        if not name or not isinstance(args, str):
            return _failure("invalid_input", "'command' must be the name of a command, and 'args' a text")
        command = commands.get(name)
        if command is None:
            known = ", ".join(each.name for each in _for_model(commands))
            return _failure("command_not_found", f"there is no command {name!r:.100}; there are {known or 'none'}")
        if command.disable_model_invocation:
            return _failure("not_for_model", f"only the user may use /{name}")
        around = Surroundings(self._coordinator, commands, self._settings.command_timeout)
        try:
            made = await expand(command, args.strip(), around)
        except (CommandError, ShellError) as error:
            return _failure(getattr(error, "code", "shell_failed"), str(error))
        facts = {"command": command.name, "source": command.source, "model": command.model}
        return ToolResult(
            output={
                "prompt": made.prompt[: self._settings.max_chars],
                "bash_commands_executed": made.bash_commands,
                "files_included": made.files,
                **{key: value for key, value in facts.items() if value is not None},
            }
        )

    async def _known(self) -> dict[str, Command]:
        commands = await self._files.find_all()
        self._asked = frozenset(name for name, command in commands.items() if command.requires_approval)
        return commands

    async def policy(self, action: str, details: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return "ask" for a command whose file wants to be approved; the kernel's signature of a policy."""
        given = details.get("tool_input")
        if details.get("tool_name") != self.name or not isinstance(given, Mapping):
            return None
        await self._known()
        name = _name(given.get("command"))
        is_asked = given.get("operation") == "execute" and name in (self._asked or ())
        return ("ask", f"the command /{name} wants to be approved") if is_asked else None


def _for_model(commands: Mapping[str, Command]) -> list[Command]:
    return [command for command in commands.values() if not command.disable_model_invocation]


def _name(given: Any) -> str:
    return given.strip().removeprefix("/") if isinstance(given, str) else ""


def _listed(command: Command) -> dict[str, str]:
    listed = {"name": command.name, "description": command.description, "source": command.source}
    return {**listed, "argument_hint": command.argument_hint} if command.argument_hint else listed


def _failure(code: str, message: str) -> ToolResult:
    return ToolResult(success=False, output=message, error={"message": message, "code": code})
