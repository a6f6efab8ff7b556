"""Put servers into the sandbox of the session."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from amplifier_kit.guard.processes.programs import is_below
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import SandboxError, SandboxRequiredError
from amplifier_kit.guard.sandbox.sandbox import Sandbox, sandbox_of
from amplifier_module_tool_mcp.faults import ServerFault
from amplifier_module_tool_mcp.server_entry import ServerSpec

if TYPE_CHECKING:
    from amplifier_kit.guard.sandbox.errors import Blocked


class Confinement:
    """The sandbox of one server: what its own entry says, else the module's config, else the session's."""

    def __init__(self, coordinator: Any, config: Any, spec: ServerSpec) -> None:
        self._coordinator = coordinator
        self._config = {"sandbox": spec.sandbox if spec.sandbox is not None else config}
        self._sandbox: Sandbox | None = None
        self._has_been_tried = False

    @property
    def status(self) -> str:
        """Return what became of it: `active`, `absent` or `off`; `unknown` before the server was started."""
        return self._sandbox.status.status if self._sandbox is not None and self._has_been_tried else "unknown"

    def writable_roots(self) -> list[str]:
        """Return the folders that commands can write, and this server too. Raises ServerFault as `wrap` does."""
        try:
            return sandbox_of(self._coordinator, self._config).writable_roots()
        except (ValueError, OSError) as error:
            raise ServerFault("sandbox_failed", str(error)) from error

    def wrap(self, argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
        """Return the command that runs another one inside; waits for the trial of the sandbox, so: in a thread.

        Raises ServerFault when the sandbox is required and cannot be had, and for settings that cannot be kept.
        """
        try:
            self._sandbox = sandbox_of(self._coordinator, self._config)
            self._check_folder(cwd, self._sandbox)
            wrapped = self._sandbox.wrap(argv, cwd=cwd, environment=environment)
        except SandboxRequiredError as error:
            raise ServerFault("sandbox_required", str(error)) from error
        except (SandboxError, ValueError, OSError) as error:
            raise ServerFault("sandbox_failed", str(error)) from error
        self._has_been_tried = True
        return wrapped

    def _check_folder(self, cwd: str, sandbox: Sandbox) -> None:
        """Refuse a folder that no setting of a session opens which requires the sandbox: the server could read it."""
        plan = getattr(self._coordinator, "config", None)
        session = (plan.get("session") or {}).get("sandbox") if isinstance(plan, Mapping) else None
        if SandboxConfig.from_config(session).mode != "required":
            return
        real = os.path.realpath(cwd)
        if not any(is_below(real, root) for root in sandbox.readable_roots()):
            reason = (
                f"the session requires the sandbox, which does not show the `cwd` {cwd}: let the server run in the "
                "project, or name the folder in `session.sandbox.readable`"
            )
            raise ServerFault("sandbox_required", reason)

    def release(self) -> None:
        """Give back what the sandbox took of the project; for when the server has ended."""
        if self._sandbox is not None:
            self._sandbox.close()

    def blocked(self, text: str) -> Blocked | None:
        """Return what the sandbox has stopped, going by what a server said that failed."""
        return self._sandbox.blocked_by(1, text) if self._sandbox is not None and self._has_been_tried else None
