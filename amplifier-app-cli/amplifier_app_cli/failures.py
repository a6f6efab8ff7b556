"""Turn faults into one line on standard error and an exit code: no command shows a traceback for a user's mistake."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from amplifier_app_cli import exits

Function = TypeVar("Function", bound=Callable[..., Any])

#: Exit codes by the stable code of a fault; every other one is a plain failure.
_EXITS = {
    "module_activation": exits.MODULES,
    "modules_missing": exits.MODULES,
    "untrusted": exits.MODULES,
    "provider_choice": exits.USAGE,
    "provider_missing": exits.USAGE,
    "provider_unknown": exits.USAGE,
}


def exit_code_of(error: Exception) -> int:
    """Return the exit code that stands for a fault."""
    from amplifier_foundation.errors import FoundationError

    return _EXITS.get(error.code, exits.FAILURE) if isinstance(error, FoundationError) else exits.FAILURE


class Failure(NamedTuple):
    """A fault in words, with its code for machines and its exit code."""

    code: str
    message: str
    exit_code: int


def described(error: Exception, *, anything: bool = False) -> Failure | None:
    """Return a fault in words for the user; None for one that is ours, unless `anything` is to be described."""
    from amplifier_core.llm_errors import LLMError
    from amplifier_foundation.errors import FoundationError
    from amplifier_foundation.log import SessionLogBusy
    from amplifier_foundation.sessions import ModulesMissingError

    if isinstance(error, ModulesMissingError):
        listed = "\n".join(f"  - {failure}" for failure in error.failures)
        hint = "" if error.is_fatal else "\nrun with --allow-missing-modules to go on"
        return Failure(error.code, f"modules could not be loaded:\n{listed}{hint}", exits.MODULES)
    if isinstance(error, FoundationError):
        return Failure(error.code, str(error), exit_code_of(error))
    if isinstance(error, LLMError):
        return Failure("provider", f"the model failed: {type(error).__name__}: {error}", exits.PROVIDER)
    if isinstance(error, SessionLogBusy):
        return Failure("session_busy", str(error), exits.FAILURE)
    if isinstance(error, OSError):
        return Failure("os_error", str(error), exits.FAILURE)
    if isinstance(error, (RuntimeError, ValueError, TypeError)) and not anything:
        return Failure("plan_invalid", str(error), exits.FAILURE)
    if isinstance(error, RuntimeError):
        return Failure("failed", str(error) or type(error).__name__, exits.FAILURE)
    return Failure("failed", f"{type(error).__name__}: {error}", exits.FAILURE) if anything else None


def told(command: Function) -> Function:
    """Decorate a command: faults that the user can do something about end it with a message and their exit code.

    With `--format json` the message is `{"status": "error", "code", "error"}` on standard output as well, so that a
    program that reads it is not left with nothing.
    """

    @functools.wraps(command)
    def guarded(*arguments: Any, **options: Any) -> Any:
        from amplifier_foundation.errors import FoundationError

        try:
            return command(*arguments, **options)
        except (FoundationError, OSError) as error:
            if isinstance(error, BrokenPipeError):
                raise  # click ends quietly: the reader has seen enough
            from amplifier_app_cli.ui.say import complain

            if options.get("output_format") == "json":
                from amplifier_app_cli.ui.records import print_json

                code = error.code if isinstance(error, FoundationError) else "os_error"
                print_json({"status": "error", "code": code, "error": str(error)})
            sys.exit(complain(exit_code_of(error), str(error)))

    return guarded  # type: ignore[return-value]
