"""Run other programs: with a deadline, bounded output, no terminal, and no process left behind.

`command` runs programs that we chose ourselves (git, installers) and kills their process group. `running_command` runs
untrusted commands, optionally in the sandbox, under a supervisor that also ends processes which leave their group.
Both start processes through `launch`, and find programs through `programs`.
"""

from amplifier_kit.guard.processes.environment import command_environment, is_secret_variable
from amplifier_kit.guard.processes.output import Output, OutputFolder, Shown
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
    "OutputFolder",
    "RunningCommand",
    "Shown",
    "StartError",
    "command_environment",
    "is_secret_variable",
    "run",
    "start",
    "to_end",
]
