"""The sandbox of a session: whether it is available, and how commands are wrapped to run in it."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.events import SESSION_END
from amplifier_kit.awaitable import plain_result
from amplifier_kit.guard.processes import supervisor
from amplifier_kit.guard.processes.programs import command_environment, loader_variables
from amplifier_kit.guard.processes.running_command import CommandSpec
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.errors import Blocked, SandboxError, SandboxRequiredError, blocked_by
from amplifier_kit.guard.sandbox.placeholders import Placeholders
from amplifier_kit.home import amplifier_home
from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct

if TYPE_CHECKING:
    from amplifier_kit.guard.sandbox.mounts import MountPlan, MountRequest
    from amplifier_kit.guard.sandbox.program_paths import ProgramPaths

logger = logging.getLogger(__name__)

SANDBOX_STATUS: Final = "sandbox:status"
SANDBOX_BLOCKED: Final = "sandbox:blocked"
EVENTS: Final = (SANDBOX_STATUS, SANDBOX_BLOCKED)
#: Why there is no sandbox where its program is missing.
MISSING: Final = "bubblewrap (bwrap) is not on PATH; on Linux, install the package bubblewrap"

#: Seconds that the end of a session waits for the status.
_END_TIMEOUT: Final = 10.0
_ACTIVE, _ABSENT, _OFF = "active", "absent", "off"
#: Where the standalone programs that run before a command are mounted.
_MOUNT_CHECK: Final = "/run/mount_check.py"
_SCRIPT: Final = "/run/supervisor.py"

#: Variables that refer to processes of the host, or to folders that are empty inside.
_HOST_VARIABLES: Final = frozenset(
    (
        *("DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY"),
        *("DOCKER_HOST", "GNOME_KEYRING_CONTROL", "GPG_AGENT_INFO", "GPG_TTY", "SSH_AGENT_PID", "SSH_AUTH_SOCK"),
        *("SSH_TTY", "TMUX", "VSCODE_GIT_ASKPASS_MAIN", "VSCODE_GIT_IPC_HANDLE", "VSCODE_IPC_HOOK_CLI"),
        *("TEMP", "TMP", "TMPDIR", "XDG_RUNTIME_DIR"),
    )
)
#: Useless without a network, and often with a password.
_PROXY_VARIABLES: Final = frozenset(("all_proxy", "ftp_proxy", "http_proxy", "https_proxy", "no_proxy"))


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
        return self.status == _ACTIVE


class SandboxSetup(FrozenStruct):
    """The sandbox of one command. The caller must `release` it when the command has ended."""

    #: The command line of bubblewrap up to the command; empty without a sandbox.
    argv: tuple[str, ...]
    environment: dict[str, str]
    placeholders: Placeholders
    #: Arguments of `mount_check`, which verifies the mounts before the command; none for read-only commands.
    checks: tuple[str, ...] = ()
    #: What is mounted; None without a sandbox.
    plan: MountPlan | None = None

    @classmethod
    def none(cls, environment: dict[str, str]) -> SandboxSetup:
        """Return the setup for running without a sandbox."""
        return cls((), environment, Placeholders([]))

    def release(self) -> None:
        """Remove the placeholders that no other command needs."""
        self.placeholders.release()

    def confine(self, spec: CommandSpec) -> CommandSpec:
        """Return a command that runs in the sandbox together with its supervisor; unchanged without a sandbox.

        All processes inside end with the outermost one, which ends with this process.
        """
        if not self.argv:
            return spec
        launcher = self._wrap(["---", _SCRIPT], ["--ro-bind", supervisor.__file__, _SCRIPT])
        return replace(spec, launcher=launcher, environment=self.environment)

    def wrap(self, program: Sequence[str], folder: str) -> list[str]:
        """Return the command line that runs a program in a folder inside the sandbox."""
        return self._wrap(["--", *program], ["--chdir", folder])

    def _wrap(self, command: Sequence[str], options: Sequence[str]) -> list[str]:
        from amplifier_kit.guard.sandbox import mount_check
        from amplifier_kit.guard.sandbox.system_paths import interpreter

        first = ["--", interpreter(), "-I", "-S", _MOUNT_CHECK, *self.checks]
        return [*self.argv[:-1], "--ro-bind", mount_check.__file__, _MOUNT_CHECK, *options, *first, *command]


class Sandbox:
    """Runs commands so that they see the system and the project, write only to the project, and have no network.

    The first use tests whether bubblewrap works, which may take seconds: `ready` does it in a thread.
    """

    def __init__(
        self,
        settings: SandboxConfig,
        project: str | os.PathLike[str],
        *,
        hidden: Iterable[str | os.PathLike[str]] = (),
        guarded: Iterable[str | os.PathLike[str]] = (),
    ) -> None:
        """Store the settings; nothing is tested yet.

        `hidden` are folders with secrets; `guarded` are files and folders that commands must not change, besides the
        control files of every session.
        """
        self.settings = settings
        self._alias = os.path.abspath(os.fspath(project))
        self._hidden = tuple(os.path.realpath(os.fspath(path)) for path in hidden)
        self._guarded = tuple(os.path.realpath(os.fspath(path)) for path in guarded)
        self._status: Status | None = None
        self._program = ""
        self._wrapped: list[SandboxSetup] = []

    @property
    def project(self) -> str:
        """Return the folder that commands can write to."""
        return self._alias

    @property
    def status(self) -> Status:
        """Return the status; the first call blocks while it is tested."""
        if self._status is None:
            mode, network = self.settings.mode, self.settings.network
            if mode == "off":
                self._status = Status(_OFF, mode, "", network, "")
            elif reason := self._unusable_reason():
                self._status = Status(_ABSENT, mode, "", network, reason)
            else:
                self._status = Status(_ACTIVE, mode, "bubblewrap", network, self._owner_remark())
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
        if status.status == _OFF:
            return "sandbox: OFF: commands can do whatever you can"
        refused = "commands are refused" if status.mode == "required" else "commands can do whatever you can"
        return f"sandbox: NOT AVAILABLE, {refused}: {status.reason}"

    async def announce(self, coordinator: Any, tool: str) -> Status:
        """Emit `sandbox:status` for a tool, with a logged warning (with the event's name) if there is no sandbox.

        A session that ends meanwhile waits for it, so that the event comes before `session:end`.
        """
        with _before_session_end(coordinator, f"{tool}-sandbox"):
            status = await self.ready()
            if status.status == _ABSENT:
                logger.warning("%s: %s", tool, self.summary(), extra={"event": SANDBOX_STATUS})
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
        shows_program: bool = False,
    ) -> tuple[list[str], dict[str, str]]:
        """Return the command line and whole environment that run a command in the sandbox, if there is one.

        For processes that the caller starts with its own pipes, and ends before `close`. All processes inside end with
        the started one, and with the thread that started it, so do not use a thread of a pool. Without `environment`,
        it gets ours without secrets. With `shows_program`, what the program needs is visible, wherever it is installed:
        see `program_paths`. Reads folders, so it may block. Raises SandboxError.
        """
        folder = os.path.abspath(os.fspath(cwd)) if cwd is not None else self._alias
        readable: tuple[str, ...] = ()
        if shows_program and self.check().is_active:
            writable = tuple(writable)
            program, readable = self._program_paths(argv, environment, writable)
            argv = [program, *argv[1:]]
        setup = self.prepare(folder, environment, writable=writable, readable=readable)
        if not setup.argv:
            return list(argv), setup.environment
        self._wrapped.append(setup)
        return setup.wrap(argv, folder), setup.environment

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
        that inspect the project. The caller releases the setup when the command has ended. Raises SandboxError.
        """
        from amplifier_kit.guard.sandbox import bubblewrap
        from amplifier_kit.guard.sandbox.mounts import MountPlan

        given = dict(environment) if environment is not None else command_environment(self.settings.environment)[0]
        if not self.check().is_active:
            return SandboxSetup.none(given)
        if not os.path.isdir(folder):
            reason = "it does not exist or is not a folder"
            raise SandboxError(f"the working directory {folder} cannot be entered: {reason}", "working_dir_missing")
        network = self.settings.network and not is_read_only
        inner = inner_environment(given, network=network, kept=self.settings.environment)
        request = self._mount_request(folder, inner)
        plan = MountPlan(
            replace(request, writable=tuple(writable), readable=tuple(readable), is_read_only=is_read_only)
        )
        # Neither bubblewrap, which runs outside, nor the mount check may load a library of the project.
        loader = loader_variables(inner)
        inner = {name: value for name, value in inner.items() if name not in loader}
        mounts = plan.arguments()
        if is_read_only:
            mounts += [argument for name, value in loader.items() for argument in ("--setenv", name, value)]
        argv = tuple(bubblewrap.arguments(self._program, network=network, mounts=mounts))
        if is_read_only:
            return SandboxSetup(argv, inner, Placeholders([]))
        placeholders = Placeholders(plan.placeholders, plan.forbidden, plan.empty)
        variables = (f"${name}={value}" for name, value in loader.items())
        return SandboxSetup(argv, inner, placeholders, (*variables, *plan.checks()), plan)

    def blocked_by(self, returncode: int | None, text: str) -> Blocked | None:
        """Return what the sandbox blocked, judging by exit code and output, or None."""
        if not returncode or self._status is None or not self._status.is_active:
            return None
        return blocked_by(text, network=self.settings.network)

    def not_visible(self, paths: Iterable[str]) -> list[str]:
        """Return those of some paths of this machine that the latest wrapped command cannot see."""
        plan = self._wrapped[-1].plan if self._wrapped else None
        if plan is None:
            return []
        return [path for path in paths if os.path.exists(path) and not plan.is_visible(os.path.realpath(path))]

    def close(self) -> None:
        """Release the setups of `wrap`, when all wrapped commands have ended."""
        while self._wrapped:
            self._wrapped.pop().release()

    def writable_roots(self) -> list[str]:
        """Return the folders that commands can write, links resolved, the project first: none is trusted."""
        return [os.path.realpath(self._alias), *self._resolve(self.settings.writable)]

    def readable_roots(self) -> list[str]:
        """Return the folders that the settings open to commands, links resolved, the project first."""
        return [*self.writable_roots(), *self._resolve(self.settings.readable)]

    def _resolve(self, paths: Iterable[str]) -> list[str]:
        from amplifier_kit.guard.sandbox.system_paths import expand

        project, home = os.path.realpath(self._alias), _home()
        return [os.path.realpath(expand(path, project, home)) for path in paths]

    def _program_paths(
        self, argv: Sequence[str], environment: Mapping[str, str] | None, writable: Sequence[str]
    ) -> ProgramPaths:
        from amplifier_kit.guard.sandbox.program_paths import program_paths

        path = (environment if environment is not None else os.environ).get("PATH", os.defpath)
        roots = [*self.writable_roots(), *map(os.path.realpath, writable)]
        return program_paths(argv, path=path, home=_home(), roots=roots, hidden=self._hidden)

    def _mount_request(self, folder: str, environment: Mapping[str, str]) -> MountRequest:
        from amplifier_kit.guard.sandbox.mounts import MountRequest

        return MountRequest(
            project=os.path.realpath(self._alias),
            folder=os.path.normpath(folder),
            alias=self._alias,
            home=os.path.realpath(environment.get("HOME") or "/tmp"),
            path=environment.get("PATH", os.defpath),
            settings=self.settings,
            hidden=self._hidden,
            guarded=self._guarded,
        )

    def _unusable_reason(self) -> str:
        from amplifier_kit.guard.sandbox import bubblewrap
        from amplifier_kit.guard.sandbox.mounts import MountPlan
        from amplifier_kit.guard.sandbox.system_paths import is_too_wide

        roots = self.writable_roots()
        project = roots[0]
        program = bubblewrap.find(os.environ.get("PATH", os.defpath), roots)
        if program is None:
            return MISSING
        if is_too_wide(project, _home()) or any(project == path for path in self._hidden):
            return f"the folder {project} is too broad for a project: work in a subfolder"
        self._program = program
        request = self._mount_request("/tmp", inner_environment(os.environ, network=False))
        return bubblewrap.unusable_reason(program, MountPlan(replace(request, has_project=False)).arguments())

    def _owner_remark(self) -> str:
        """Return a remark about a project that belongs to another user than root."""
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


def inner_environment(environment: Mapping[str, str], *, network: bool, kept: Iterable[str] = ()) -> dict[str, str]:
    """Return an environment without variables that only make sense outside, except for those in `kept`."""
    keep = set(kept)
    given = {
        name: value
        for name, value in environment.items()
        if name in keep or (name not in _HOST_VARIABLES and (network or name.lower() not in _PROXY_VARIABLES))
    }
    if given.get("HOME", "/") in ("", "/"):
        given["HOME"] = "/tmp"
    return given


def _home() -> str:
    """Return the real path of the home folder; the null device without one."""
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
    """Return the sandbox for a module, around the session's folder or another `project`; nothing is tested yet.

    Commands cannot change the files of the app's capability `session.control_files`. Raises ValueError that names the
    wrong key, and FileNotFoundError when the session has no folder and the current directory was removed.
    """
    project = project or coordinator.get_capability("session.working_dir") or os.getcwd()
    hidden = [home] if (home := coordinator.get_capability("amplifier.home")) else []
    guarded = coordinator.get_capability("session.control_files") or ()
    return Sandbox(settings_of(coordinator, config), project, hidden=[*hidden, amplifier_home()], guarded=guarded)


@contextmanager
def _before_session_end(coordinator: Any, name: str) -> Iterator[None]:
    """Let `session:end` wait until the block is left, for a limited time."""
    register = getattr(coordinator.hooks, "register", None)  # a test double may only record events
    if register is None:
        yield
        return
    done = asyncio.Event()

    async def wait(event: str, data: Any) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _END_TIMEOUT)

    unregister = register(SESSION_END, wait, priority=-1000, name=name)
    try:
        yield
    finally:
        done.set()
        unregister()
