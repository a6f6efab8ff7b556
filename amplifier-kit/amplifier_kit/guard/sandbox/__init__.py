"""Run commands in a sandbox: they see the system and the project, write only to the project, and have no network.

`sandbox_of(coordinator, config)` returns a module's sandbox; `Sandbox.wrap` the command line for a process that the
caller starts with its own pipes; `run` and `start` run a `CommandSpec` of `amplifier_kit.guard.processes` inside, with
the same guarantees. Without bubblewrap, commands run unconfined with a warning, or are refused, as the plan says.
"""

from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import (
    FolderMissingError,
    FolderOutsideError,
    LedOutError,
    SandboxError,
    SandboxRequiredError,
)
from amplifier_kit.guard.sandbox.run import run, setup_problem, start
from amplifier_kit.guard.sandbox.sandbox import (
    EVENTS,
    SANDBOX_BLOCKED,
    SANDBOX_STATUS,
    Sandbox,
    SandboxSetup,
    Status,
    sandbox_of,
    settings_of,
)

__all__ = [
    "EVENTS",
    "SANDBOX_BLOCKED",
    "SANDBOX_STATUS",
    "FolderMissingError",
    "FolderOutsideError",
    "LedOutError",
    "Sandbox",
    "SandboxConfig",
    "SandboxError",
    "SandboxRequiredError",
    "SandboxSetup",
    "Status",
    "run",
    "sandbox_of",
    "settings_of",
    "setup_problem",
    "start",
]
