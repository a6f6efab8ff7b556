"""Run other programs: with a deadline, bounded output, no terminal, and no process left behind.

`launch` starts processes, and runs programs that we chose ourselves (git, installers) to their end. `running_command`
runs untrusted commands, optionally in the sandbox, under a supervisor that also ends processes which leave their group.
`programs` finds programs, and makes the environment of a process.
"""

from amplifier_kit.guard.processes.output import Output, Shown
from amplifier_kit.guard.processes.programs import command_environment, is_secret_variable
from amplifier_kit.guard.processes.running_command import (
    CommandSpec,
    Outcome,
    RunningCommand,
    StartError,
    run,
    start,
    to_end,
)

__all__ = [
    "CommandSpec",
    "Outcome",
    "Output",
    "RunningCommand",
    "Shown",
    "StartError",
    "command_environment",
    "is_secret_variable",
    "run",
    "start",
    "to_end",
]
