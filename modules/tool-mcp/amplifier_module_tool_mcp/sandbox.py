"""Start servers in the sandbox of the session, with what their commands need visible."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_kit.guard.private_files import make_private
from amplifier_kit.guard.processes.programs import is_below
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import SandboxError, SandboxRequiredError
from amplifier_kit.guard.sandbox.sandbox import Sandbox, sandbox_of
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_tool_mcp.command import Command, Places, installed_command
from amplifier_module_tool_mcp.faults import ServerFault
from amplifier_module_tool_mcp.server_entry import ServerSpec

if TYPE_CHECKING:
    from amplifier_kit.guard.sandbox.errors import Blocked

#: Characters of the name of a server's own package cache, from its fingerprint.
_CACHE_NAME: Final = 16


class Launch(NamedTuple):
    """A process to start: command line, whole environment and folder."""

    argv: list[str]
    environment: dict[str, str]
    folder: str


class ServerSandbox:
    """The sandbox of one server: what its own entry says, else the module's config, else the session's."""

    def __init__(self, coordinator: Any, config: Any, spec: ServerSpec) -> None:
        self._coordinator = coordinator
        self._config = {"sandbox": spec.sandbox if spec.sandbox is not None else config}
        self._fingerprint = spec.fingerprint
        self._sandbox: Sandbox | None = None
        self._has_been_tried = False
        #: The arguments of the server that are paths of this machine which it cannot see.
        self.not_visible: list[str] = []

    @property
    def status(self) -> str:
        """Return `active`, `absent` or `off`; `unknown` before the server was started."""
        return self._sandbox.status.status if self._sandbox is not None and self._has_been_tried else "unknown"

    def writable_roots(self) -> list[str]:
        """Return the folders that commands can write, and this server too. Raises ServerFault as `launch` does."""
        try:
            return sandbox_of(self._coordinator, self._config).writable_roots()
        except (ValueError, OSError) as error:
            raise ServerFault("sandbox_failed", str(error)) from error

    def launch(self, program: str, arguments: Sequence[str], folder: str, environment: Mapping[str, str]) -> Launch:
        """Return how to start a server inside; waits for the trial of the sandbox, so call it in a thread.

        Raises ServerFault when the sandbox is required and not available, for settings that cannot be met, and for a
        package that is not installed and cannot be installed.
        """
        try:
            self._sandbox = sandbox = sandbox_of(self._coordinator, self._config)
            command = Command([program, *arguments])
            if sandbox.check().is_active:
                places = self._places(environment)
                command = installed_command(
                    program, arguments, folder=folder, places=places, network=sandbox.settings.network
                )
            folder = command.folder or folder
            self._check_folder(folder, sandbox)
            for path in command.writable:
                make_private(Path(path))
            argv, environment = sandbox.wrap(
                command.argv,
                cwd=folder,
                environment={**command.environment, **environment},
                writable=command.writable,
                shows_program=True,
            )
        except SandboxRequiredError as error:
            raise ServerFault("sandbox_required", str(error)) from error
        except (SandboxError, ValueError, OSError) as error:
            raise ServerFault("sandbox_failed", str(error)) from error
        self._has_been_tried = True
        self.not_visible = sandbox.not_visible(_paths(arguments))
        return Launch(argv, environment, folder)

    def _places(self, environment: Mapping[str, str]) -> Places:
        home = Path.home()
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
        own = cache / "amplifier" / "mcp" / self._fingerprint[:_CACHE_NAME]
        # Where the user's tools keep their packages: an entry of a project has no say in it.
        return Places(home, {**os.environ, "PATH": environment.get("PATH", "")}, own)

    def _check_folder(self, cwd: str, sandbox: Sandbox) -> None:
        """Refuse a folder that no setting of a session opens which requires the sandbox: the server could read it."""
        plan = getattr(self._coordinator, "config", None)
        session = (plan.get("session") or {}).get("sandbox") if isinstance(plan, Mapping) else None
        if SandboxConfig.from_config(session).mode != "required":
            return
        real = os.path.realpath(cwd)
        if not any(is_below(real, root) for root in sandbox.readable_roots()):
            reason = f"the session requires the sandbox, which does not show the `cwd` {cwd}"
            advice = "Let the server run in the project, or name the folder in `session.sandbox.readable`"
            raise ServerFault("sandbox_required", reason, advice)

    def release(self) -> None:
        """Release what the sandbox holds of the project, when the server has ended."""
        if self._sandbox is not None:
            self._sandbox.close()

    def blocked(self, text: str) -> Blocked | None:
        """Return what the sandbox blocked according to the message of a failed server, or None."""
        return self._sandbox.blocked_by(1, text) if self._sandbox is not None and self._has_been_tried else None


def _paths(arguments: Sequence[str]) -> list[str]:
    """Return the absolute paths among the arguments of a program, as they are or after the `=` of an option."""
    values = (argument.partition("=")[2] if argument.startswith("-") else argument for argument in arguments)
    return [value for value in values if os.path.isabs(value)]
