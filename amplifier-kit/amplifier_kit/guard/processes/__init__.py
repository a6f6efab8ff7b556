"""Run other programs so that they can do no harm: a deadline, bounded output, no terminal, nothing left behind.

Every command runs below a supervisor of its own, which keeps what the command starts from getting away (leaving its
process group or session, or its parent) and ends all of it when the command is over, when its time is up, when it is
stopped, and when the process that asked for it is gone, however that came.
"""

from amplifier_kit.guard.processes.command_spec import GRACE, CommandSpec, StartError
from amplifier_kit.guard.processes.environment import command_environment, is_secret_variable
from amplifier_kit.guard.processes.output import Output, Shown
from amplifier_kit.guard.processes.output_folder import OutputFolder
from amplifier_kit.guard.processes.running_command import Outcome, RunningCommand, run, start, to_end

__all__ = [
    "GRACE",
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
