"""The sandbox of a session: whether it is available, and how commands are wrapped to run in it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.processes import CommandSpec, command_environment, supervisor
from amplifier_kit.guard.processes.programs import loader_variables
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.environment import inner_environment
from amplifier_kit.guard.sandbox.errors import FolderMissingError, SandboxRequiredError
from amplifier_kit.guard.sandbox.placeholders import Placeholders
from amplifier_kit.home import amplifier_home

if TYPE_CHECKING:
    from amplifier_kit.guard.sandbox.denials import Blocked
    from amplifier_kit.guard.sandbox.mounts import Scene

logger = logging.getLogger(__name__)

SANDBOX_STATUS: Final = "sandbox:status"
SANDBOX_BLOCKED: Final = "sandbox:blocked"
EVENTS: Final = (SANDBOX_STATUS, SANDBOX_BLOCKED)

BACKEND: Final = "bubblewrap"
#: Where the programs are found inside that run before a command.
_CHECK: Final = "/run/mount_check.py"
_SCRIPT: Final = "/run/supervisor.py"
ACTIVE, ABSENT, OFF = "active", "absent", "off"


class Status(NamedTuple):
    """What the settings mean on this machine."""

    #: `active`, `absent` (not available) or `off` (disabled).
    status: str
    mode: str
    backend: str
    network: bool
    #: Why it is not available, or a remark.
    reason: str

    @property
    def is_active(self) -> bool:
        """Tell whether commands run in the sandbox."""
        return self.status == ACTIVE


class SandboxSetup(NamedTuple):
    """The wrapper of one sandboxed command: its arguments, its environment, and placeholders to release afterwards."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    placeholders: Placeholders
    #: Mounts that the first program inside verifies before it runs the command; none for read-only commands.
    checks: tuple[str, ...] = ()

    @classmethod
    def none(cls, environment: dict[str, str]) -> SandboxSetup:
        """Return the setup for running without a sandbox."""
        return cls((), environment, Placeholders([]))

    def confine(self, spec: CommandSpec) -> CommandSpec:
        """Return a command that runs in the sandbox, with its supervisor; without a sandbox, the command itself.

        All processes inside end with the outermost one, which ends with this process.
        """
        if not self.argv:
            return spec
        return replace(spec, launcher=self.before((), script=supervisor.__file__), environment=self.environment)

    def before(self, program: Sequence[str], *, script: str = "", folder: str = "") -> list[str]:
        """Return the wrapped command line of a program, or of a Python script that takes the arguments.

        It runs after the first program inside has verified the mounts.
        """
        from amplifier_kit.guard.sandbox import mount_check
        from amplifier_kit.guard.sandbox.system_paths import interpreter

        shown = ["--ro-bind", mount_check.__file__, _CHECK]
        shown += ["--ro-bind", script, _SCRIPT] if script else []
        shown += ["--chdir", folder] if folder else []
        command = ["---", _SCRIPT, *program] if script else ["--", *program]
        return [*self.argv[:-1], *shown, "--", interpreter(), "-I", "-S", _CHECK, *self.checks, *command]


class Sandbox:
    """Run commands so that they see the system and the project, write only to the project, and have no network.

    The first use tries whether it is available, which takes some milliseconds and may take seconds: `ready` does it in
    a thread.
    """

    def __init__(
        self,
        settings: SandboxConfig,
        project: str | os.PathLike[str],
        *,
        hidden: Iterable[str | os.PathLike[str]] = (),
        guarded: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        """Store the settings; nothing is tried yet.

        `hidden` are folders of secrets; `guarded` are more files and folders that commands must not change, besides
        the control files of every session.
        """
        self.settings = settings
        self._alias = os.path.abspath(os.fspath(project))
        self._hidden = tuple(os.path.realpath(os.fspath(path)) for path in hidden)
        self._guarded = tuple(os.path.realpath(os.fspath(path)) for path in guarded)
        self._status: Status | None = None
        self._program = ""
        self._held: list[Placeholders] = []

    @property
    def project(self) -> str:
        """Return the folder that commands can write to."""
        return self._alias

    @property
    def status(self) -> Status:
        """Return the status; the first call blocks while it is tried."""
        if self._status is None:
            self._status = self._tried()
        return self._status

    async def ready(self) -> Status:
        """Return the status without blocking the event loop."""
        if self._status is None:
            return await asyncio.to_thread(lambda: self.status)
        return self._status

    def summary(self) -> str:
        """Return the status in one line for people; the first call blocks."""
        status = self.status
        if status.is_active:
            network = "the host's network" if status.network else "no network"
            return f"sandbox: on ({status.backend}): writes only to the project, {network}" + (
                f"; {status.reason}" if status.reason else ""
            )
        if status.status == OFF:
            return "sandbox: OFF: commands can do whatever you can"
        refused = "commands are refused" if status.mode == "required" else "commands can do whatever you can"
        return f"sandbox: NOT AVAILABLE, {refused}: {status.reason}"

    async def announce(self, coordinator: Any, tool: str) -> Status:
        """Emit `sandbox:status` for a tool, with a logged warning when the sandbox is not available."""
        status = await self.ready()
        if status.status == ABSENT:
            logger.warning("%s: %s", tool, self.summary())
        await coordinator.hooks.emit(SANDBOX_STATUS, {"tool": tool, **status._asdict()})
        return status

    def check(self) -> Status:
        """Return the status; raise SandboxRequiredError when it is required but not available. Blocks once."""
        status = self.status
        if status.mode == "required" and not status.is_active:
            raise SandboxRequiredError(status.reason)
        return status

    def wrap(
        self,
        argv: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        environment: Mapping[str, str] | None = None,
        writable: Iterable[str] = (),
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command line and whole environment that run a command in the sandbox, if there is one.

        For processes that the caller starts with its own pipes. All processes inside end with the started one, and
        with the thread that started it, so do not use a thread of a pool. Without `environment`, it gets ours without
        secrets. Reads folders, so it may block. Raises SandboxError.
        """
        folder = os.path.abspath(os.fspath(cwd)) if cwd is not None else self._alias
        setup = self.prepare(folder, environment, writable=writable)
        if setup.argv:
            self._held.append(setup.placeholders)
            return setup.before(argv, folder=folder), setup.environment
        return list(argv), setup.environment

    def prepare(
        self,
        folder: str,
        environment: Mapping[str, str] | None = None,
        *,
        writable: Iterable[str] = (),
        readable: Iterable[str] = (),
        is_read_only: bool = False,
    ) -> SandboxSetup:
        """Return the setup of a command that runs in `folder`; an empty one without a sandbox.

        With `is_read_only` it can write nothing and has no network, whatever the settings allow: for our own programs
        that inspect the project.

        The caller releases the placeholders when the command has ended. Raises SandboxError.
        """
        from amplifier_kit.guard.sandbox import bubblewrap
        from amplifier_kit.guard.sandbox.mounts import View

        given = dict(environment) if environment is not None else command_environment(self.settings.environment)[0]
        if not self.check().is_active:
            return SandboxSetup.none(given)
        if not os.path.isdir(folder):
            raise FolderMissingError(folder)
        network = self.settings.network and not is_read_only
        inner = inner_environment(given, network=network, kept=self.settings.environment)
        scene = self._scene(folder, inner, tuple(writable), tuple(readable))
        view = View(scene._replace(is_read_only=is_read_only))
        # Bubblewrap itself runs outside: it must not load a library of the project, nor must the mount check.
        loader = loader_variables(inner)
        given_here = loader if is_read_only else {}
        given_inside = [argument for name, value in given_here.items() for argument in ("--setenv", name, value)]
        argv = bubblewrap.arguments(self._program, network=network, view=[*view.arguments(), *given_inside])
        inner = {name: value for name, value in inner.items() if name not in loader}
        if is_read_only:
            return SandboxSetup(tuple(argv), inner, Placeholders([]))
        placeholders = Placeholders(view.placeholders, view.unwanted, view.empty)
        variables = (f"${name}={value}" for name, value in loader.items())
        return SandboxSetup(tuple(argv), inner, placeholders, (*variables, *view.checks()))

    def blocked_by(self, returncode: int | None, text: str) -> Blocked | None:
        """Return what the sandbox blocked, judging by exit code and output, or None."""
        from amplifier_kit.guard.sandbox.denials import blocked_by

        if not returncode or self._status is None or not self._status.is_active:
            return None
        return blocked_by(text, network=self.settings.network)

    def close(self) -> None:
        """Release the placeholders of `wrap`, when all wrapped commands have ended."""
        while self._held:
            self._held.pop().release()

    def writable_roots(self) -> list[str]:
        """Return the folders that commands can write, links resolved, the project first: none is trusted."""
        from amplifier_kit.guard.sandbox.system_paths import place_of

        project, home = os.path.realpath(self._alias), _home()
        return [project, *(os.path.realpath(place_of(name, project, home)) for name in self.settings.writable)]

    def readable_roots(self) -> list[str]:
        """Return the folders that the settings open to commands, links resolved, the project first."""
        from amplifier_kit.guard.sandbox.system_paths import place_of

        project, home = os.path.realpath(self._alias), _home()
        opened = (os.path.realpath(place_of(name, project, home)) for name in self.settings.readable)
        return [*self.writable_roots(), *opened]

    def _scene(
        self,
        folder: str,
        environment: Mapping[str, str],
        writable: tuple[str, ...] = (),
        readable: tuple[str, ...] = (),
    ) -> Scene:
        from amplifier_kit.guard.sandbox.mounts import Scene

        return Scene(
            project=os.path.realpath(self._alias),
            folder=os.path.normpath(folder),
            alias=self._alias,
            home=os.path.realpath(environment.get("HOME") or "/tmp"),
            path=environment.get("PATH", os.defpath),
            settings=self.settings,
            hidden=self._hidden,
            writable=writable,
            readable=readable,
            guarded=self._guarded,
        )

    def _tried(self) -> Status:
        mode, network = self.settings.mode, self.settings.network
        if mode == OFF:
            return Status(OFF, mode, "", network, "")
        reason = self._unusable_reason()
        if reason:
            return Status(ABSENT, mode, "", network, reason)
        return Status(ACTIVE, mode, BACKEND, network, self._remark())

    def _unusable_reason(self) -> str:
        from amplifier_kit.guard.sandbox import bubblewrap
        from amplifier_kit.guard.sandbox.mounts import View
        from amplifier_kit.guard.sandbox.system_paths import is_too_wide

        home, roots = _home(), self.writable_roots()
        project = roots[0]
        program = bubblewrap.find(os.environ.get("PATH", os.defpath), roots)
        if program is None:
            return "bubblewrap (bwrap) is not on PATH"
        if is_too_wide(project, home) or any(project == path for path in self._hidden):
            return f"the folder {project} is too wide for a project: work in a folder of its own"
        self._program = program
        with_nothing = inner_environment(os.environ, network=False)
        scene = self._scene("/tmp", with_nothing)
        return bubblewrap.unusable_reason(program, View(scene._replace(has_project=False)).arguments())

    def _remark(self) -> str:
        """Return a remark about a project that belongs to another user."""
        try:
            owner = os.stat(self._alias).st_uid
        except OSError:
            return ""
        if os.geteuid() == 0 and owner != 0:
            return (
                f"the project belongs to user {owner}, and root's rights over others' files end here: run as that "
                "user to write to it"
            )
        return ""


def _home() -> str:
    """Return the real path of the home folder, the null device without one."""
    home = os.path.expanduser("~")
    return os.path.realpath(home) if os.path.isabs(home) else os.devnull


def settings_of(coordinator: Any, config: Mapping[str, Any] | None = None) -> SandboxConfig:
    """Return a module's settings: its config key `sandbox` over the plan's `session.sandbox` over `auto`.

    When the app's capability `plan.is_trusted` reports an untrusted project, the settings open nothing. Raises
    ValueError that names the wrong key.
    """
    module = (config or {}).get("sandbox")
    plan = getattr(coordinator, "config", None)
    session = (plan.get("session") or {}).get("sandbox") if isinstance(plan, Mapping) else None
    settings = SandboxConfig.layered(session, module)
    if settings.is_looser(session, module):
        logger.warning("the session requires the sandbox: what a module's config opens in it is ignored")
    is_trusted = coordinator.get_capability("plan.is_trusted") if settings != settings.shut() else None
    if is_trusted is not None and plain_result(is_trusted("sandbox")) is not True:
        logger.warning("the project is not trusted: what its files open in the sandbox is ignored")
        return settings.shut()
    return settings


def sandbox_of(
    coordinator: Any, config: Mapping[str, Any] | None = None, *, project: str | os.PathLike[str] | None = None
) -> Sandbox:
    """Return the sandbox for a module, around the session's folder or another `project`; nothing is tried yet.

    Commands cannot change the files of the app's capability `session.control_files`.

    Raises ValueError that names the wrong key, and FileNotFoundError when the session has no folder and the current
    directory is gone.
    """
    project = project or coordinator.get_capability("session.working_dir")
    home = coordinator.get_capability("amplifier.home")
    hidden = [home] if home else []
    settings = settings_of(coordinator, config)
    guarded = coordinator.get_capability("session.control_files") or ()
    folder = str(project) if project else os.getcwd()
    return Sandbox(settings, folder, hidden=[*hidden, amplifier_home()], guarded=guarded)
