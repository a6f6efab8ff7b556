"""Turn faults into one line on standard error and an exit code: no command shows a traceback for a user's mistake."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from amplifier_app_cli import exits

Function = TypeVar("Function", bound=Callable[..., Any])

#: Exit codes by the stable code of a fault; every other one is a plain failure.
_EXITS = {"module_activation": exits.MODULES, "modules_missing": exits.MODULES, "untrusted": exits.MODULES}


def exit_code_of(error: Exception) -> int:
    """Return the exit code that stands for a fault."""
    from amplifier_foundation.errors import FoundationError

    return _EXITS.get(error.code, exits.FAILURE) if isinstance(error, FoundationError) else exits.FAILURE


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
