"""Read the input of a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_bash.config import BashConfig

#: Seconds that a call may ask for; what takes longer belongs in the background.
MOST_SECONDS: Final = 3600
#: What one argument of a program may take on Linux.
MOST_BYTES: Final = 128 * 1024 - 1
_JOB_COMMANDS: Final = ("status", "kill")


class InvalidCallError(ValueError):
    """The input of a call is not what the schema says."""


class TooLongError(ValueError):
    """A command is longer than a system takes."""


class Call(NamedTuple):
    """What is asked for."""

    command: str
    timeout: float
    is_background: bool
    job: int | None

    @classmethod
    def from_input(cls, given: Mapping[str, Any], settings: BashConfig) -> Call:
        """Read an input; raise InvalidCallError that says which key is wrong, or TooLongError."""
        command = given.get("command")
        if not isinstance(command, str) or not command.strip():
            raise InvalidCallError("`command` must be a text that is not empty")
        if "\0" in command or any("\ud800" <= char <= "\udfff" for char in command):
            raise InvalidCallError("`command` must not contain null bytes or half characters")
        if len(command.encode()) > MOST_BYTES:
            raise TooLongError(f"it is too long ({len(command):,} characters): write it to a file and run that")
        background = given.get("run_in_background")
        if background is not None and not isinstance(background, bool):
            raise InvalidCallError("`run_in_background` must be true or false")
        return cls(command, _timeout(given.get("timeout"), settings), bool(background), _job(given, command))


def input_schema(settings: BashConfig) -> dict[str, Any]:
    """Return the schema of the input."""
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "Bash command to execute"},
            "timeout": {
                "type": "integer",
                "description": f"Seconds after which the command is stopped, up to {_most(settings):g}",
                "default": settings.timeout,
            },
            "run_in_background": {
                "type": "boolean",
                "description": "Return at once and let the command run on, until it ends or the session does",
                "default": False,
            },
            "job": {
                "type": "integer",
                "description": "PID of a background job of this session: `command` is then not run, but says what to "
                'do with the job: "status" (how it stands, and its output) or "kill"',
            },
        },
        "required": ["command"],
    }


def _most(settings: BashConfig) -> float:
    return max(MOST_SECONDS, settings.timeout)


def _timeout(value: Any, settings: BashConfig) -> float:
    if value is None:
        return settings.timeout
    most = _most(settings)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise InvalidCallError(f"`timeout` must be a number of seconds from 1 to {most:g}, got {value!r}")
    return float(value)


def _job(given: Mapping[str, Any], command: str) -> int | None:
    job = given.get("job")
    if job is None:
        return None
    if isinstance(job, bool) or not isinstance(job, int):
        raise InvalidCallError("`job` must be the PID of a background job")
    if command.strip() not in _JOB_COMMANDS:
        raise InvalidCallError('with `job`, `command` must be "status" or "kill"; without it, it is run')
    return job
