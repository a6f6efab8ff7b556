"""Run commands in a sandbox: they see the system and the project, write only to the project, and reach nobody.

`sandbox_of(coordinator, config)` gives a module its sandbox; `Sandbox.wrap` a command line for anything that is started
with pipes of one's own; `run` and `start` run an `Order` of `amplifier_kit.processes` inside, with all that is promised
there. Where there is no bubblewrap, commands run without it and that is said, or they are refused, as the plan wants.
"""

from amplifier_kit.sandbox.errors import (
    FolderMissingError,
    FolderOutsideError,
    LedOutError,
    SandboxError,
    SandboxRequiredError,
)
from amplifier_kit.sandbox.running import run, setup_problem, start
from amplifier_kit.sandbox.sandbox import (
    EVENTS,
    SANDBOX_BLOCKED,
    SANDBOX_STATUS,
    Sandbox,
    Status,
    Walls,
    sandbox_of,
    settings_of,
)
from amplifier_kit.sandbox.settings import SandboxSettings

__all__ = [
    "EVENTS",
    "SANDBOX_BLOCKED",
    "SANDBOX_STATUS",
    "FolderMissingError",
    "FolderOutsideError",
    "LedOutError",
    "Sandbox",
    "SandboxError",
    "SandboxRequiredError",
    "SandboxSettings",
    "Status",
    "Walls",
    "run",
    "sandbox_of",
    "settings_of",
    "setup_problem",
    "start",
]
