"""Turn errors into one line on standard error and an exit code; a traceback is only for our own bugs."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import click

from amplifier_app_cli import exits
from amplifier_app_cli.app import current_app
from amplifier_app_cli.ui.plain import without_secrets
from amplifier_app_cli.ui.streams import is_about_stdout
from amplifier_kit.named_tuple import NamedTuple

Function = TypeVar("Function", bound=Callable[..., Any])

#: Names that do not exist: a mistake in usage, whatever they name.
_UNKNOWN = (
    "agent_not_found",
    "bundle_not_found",
    "call_not_found",
    "checkpoint_not_found",
    "event_not_found",
    "event_unknown",
    "key_not_found",
    "mcp_server_not_found",
    "module_not_found",
    "path_not_found",
    "policy_rule_not_found",
    "session_ambiguous",
    "session_not_found",
    "setting_not_found",
    "source_not_found",
    "tool_not_found",
    "turn_range",
)
#: Exit codes by the stable code of an error; all others are 1.
_EXITS = {
    **dict.fromkeys(_UNKNOWN, exits.USAGE),
    "budget_exhausted": exits.BUDGET_EXHAUSTED,
    "key_name": exits.USAGE,
    "mcp_server": exits.USAGE,
    "policy_rule": exits.USAGE,
    "module_activation": exits.MODULES,
    "modules_missing": exits.MODULES,
    "system_prompt_missing": exits.MODULES,
    "untrusted": exits.MODULES,
    "image_invalid": exits.USAGE,
    "model_unknown": exits.USAGE,
    "no_prompt": exits.USAGE,
    "output_schema": exits.USAGE,
    "permission_mode": exits.USAGE,
    "provider_choice": exits.USAGE,
    "provider_key_missing": exits.PROVIDER,
    "provider_missing": exits.USAGE,
    "provider_unknown": exits.USAGE,
    "setting_refused": exits.USAGE,
}


def exit_code_of(error: Exception) -> int:
    """Return the exit code of an error."""
    from amplifier_foundation.errors import FoundationError

    return _EXITS.get(error.code, exits.FAILURE) if isinstance(error, FoundationError) else exits.FAILURE


class Failure(NamedTuple):
    """An error for the user: its stable code, its message and its exit code."""

    code: str
    message: str
    exit_code: int


def describe_failure(error: Exception, *, anything: bool = False) -> Failure | None:
    """Describe an error, secrets masked; None for one of our own bugs, unless `anything` is to be described."""
    failure = _known(error) or _unknown(error, anything=anything)
    return failure._replace(message=without_secrets(failure.message)) if failure is not None else None


def _unknown(error: Exception, *, anything: bool) -> Failure | None:
    if isinstance(error, (RuntimeError, ValueError, TypeError)) and not anything:
        return Failure("plan_invalid", str(error), exits.FAILURE)
    if isinstance(error, RuntimeError):
        return Failure("failed", _placed(str(error) or type(error).__name__, error), exits.FAILURE)
    if not anything:
        return None
    return Failure("failed", _placed(f"{type(error).__name__}: {error}", error), exits.FAILURE)


def _placed(message: str, error: Exception) -> str:
    """Return the message with the place in a module's own code that failed; with -v also the lines around it."""
    from amplifier_foundation.tracebacks import frame_lines, location

    place = location(error)
    if place is None:
        return message
    frames = frame_lines(error) if current_app().is_verbose else ()
    return "\n".join((f"{message} ({place}; the log has the whole traceback)", *frames))


def _known(error: Exception) -> Failure | None:
    """Describe an error of a class whose message says what is wrong."""
    from amplifier_foundation.errors import FoundationError

    if isinstance(error, FoundationError):
        failures = getattr(error, "failures", None)
        if error.code == "modules_missing" and failures:
            listed = "\n".join(_listed(error, failures))
            hint = "" if getattr(error, "is_fatal", False) else "\nrun with --allow-missing-modules to leave them out"
            return Failure(error.code, f"modules could not be loaded:\n{listed}{hint}", exits.MODULES)
        return Failure(error.code, str(error), exit_code_of(error))
    if isinstance(error, OSError):
        return Failure("os_error", _said_by_system(error), exits.FAILURE)
    # Not imported here: a command that raises one of these has imported it.
    if _is_of(error, "amplifier_core.llm_errors", "LLMError"):
        return Failure("provider", f"the model failed: {type(error).__name__}: {error}", exits.PROVIDER)
    if _is_of(error, "amplifier_kit.log.files", "SessionLogBusy"):
        return Failure("session_busy", str(error), exits.FAILURE)
    return None


def _listed(error: Exception, failures: list[str]) -> Iterator[str]:
    """Yield a line for each failed module, and below it where it is, how to fix it and, with -v, its own frames."""
    known = getattr(error, "modules", ())
    is_verbose = current_app().is_verbose
    for number, failure in enumerate(failures):
        yield f"  - {failure}"
        if known:
            yield from (f"    {line}" for line in (*known[number].hints, *(known[number].frames if is_verbose else ())))


def _is_of(error: Exception, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(error, kind)


def _said_by_system(error: OSError) -> str:
    """Return the message of the system, with the file it is about."""
    if error.filename is None or not error.strerror:
        return str(error)
    return f"{os.fsdecode(error.filename) if isinstance(error.filename, bytes) else error.filename}: {error.strerror}"


def report_errors(command: Function, *, has_lines: bool = False) -> Function:
    """Decorate a command: errors that the user can act on end it with a message and their exit code.

    With `--json` the message is `{"status": "error", "code", "error"}` on standard output as well, so that a
    program that reads it is not left with nothing; on one line for a command that `has_lines` of JSON.
    """

    def print_failure(code: str, message: str) -> None:
        from amplifier_app_cli.ui.records import print_json, print_json_line

        (print_json_line if has_lines else print_json)({"status": "error", "code": code, "error": message})

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except click.UsageError as error:
            if options.get("as_json"):
                print_failure("usage", error.format_message())
            raise  # click reports it, with how to use the command
        except click.ClickException:
            raise  # click reports it
        except BrokenPipeError:
            raise  # click ends quietly: the reader has seen enough
        except Exception as error:
            failure = _known(error)
            if failure is None:
                raise
            failure = failure._replace(message=without_secrets(failure.message))
            from amplifier_app_cli.ui.say import complain

            if options.get("as_json") and not is_about_stdout(error):
                print_failure(failure.code, failure.message)
            sys.exit(complain(failure.exit_code, failure.message))

    return guarded  # type: ignore[return-value]
