"""Have uv, or else pip, install what a module needs into a folder, and nothing that the program has already."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sources.environment import Environment, installed_in, unmet
from amplifier_kit.guard.processes.command import CommandTimeoutError, run_command
from amplifier_kit.guard.processes.programs import find_program
from amplifier_kit.threads import in_thread

if TYPE_CHECKING:
    from packaging.requirements import Requirement

#: Seconds one installation may take unless $AMPLIFIER_INSTALL_TIMEOUT_S says otherwise.
DEFAULT_TIMEOUT: Final = 600.0
TIMEOUT_VARIABLE: Final = "AMPLIFIER_INSTALL_TIMEOUT_S"
_ROUNDS: Final = 20
_SHOWN_LINES: Final = 20
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@")


class InstallError(FoundationError):
    """Something cannot be installed; the text has the installer's own words at its end."""

    code = "install_failed"


@dataclass(frozen=True)
class Wanted:
    """What is to be installed into one folder."""

    requirements: tuple[Requirement, ...] = ()
    #: The folder of a project that is to be built and installed itself.
    project: Path | None = None
    #: The name of that project, if it is known before it is built.
    project_name: str | None = None


@dataclass(frozen=True)
class Filled:
    """What was installed, and where."""

    path: Path
    #: Distributions by name, with their versions.
    installed: Mapping[str, str]
    #: Requirements that the environment met.
    relies_on: frozenset[str]


def install_timeout(environ: Mapping[str, str]) -> float:
    """Return how many seconds an installation may take; raise InstallError for a setting that is no such number."""
    text = environ.get(TIMEOUT_VARIABLE, "").strip()
    if not text:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InstallError(f"{TIMEOUT_VARIABLE}={text!r} is not a number of seconds: give one above 0, or unset it")
    return seconds


@dataclass(frozen=True)
class Installer:
    """A program that installs distributions."""

    kind: Literal["uv", "pip"]
    command: tuple[str, ...]
    python: str
    environ: Mapping[str, str]
    #: Where uv keeps what it downloaded when it has no place of its own.
    cache: Path
    offline: bool = False

    async def fill(self, staging: Path, wanted: Wanted, environment: Environment, timeout: float) -> Filled:
        """Install what is wanted, with all that it needs and the environment lacks, into a new folder below `staging`.

        Raises InstallError when it cannot be installed, took too long, or needs another version of something than the
        program has; what lies in `staging` is then of no use.
        """
        if self.kind == "uv":
            names = environment.names() - ({_canonical(wanted.project_name)} if wanted.project_name else set())
            target = await self._run(staging / "site", wanted, timeout, excludes=sorted(names))
            if target is not None:
                return self._checked(target, wanted, environment)
        return await self._fill_in_rounds(staging, wanted, environment, timeout)

    async def _fill_in_rounds(self, staging: Path, wanted: Wanted, environment: Environment, timeout: float) -> Filled:
        """Install without dependencies, look what is missing, ask for that too, until nothing is.

        For installers that cannot be told to leave alone what the environment has.
        """
        asked = list(wanted.requirements)
        for number in range(_ROUNDS):
            target = staging / f"round-{number}"
            await self._run(target, replace(wanted, requirements=tuple(asked)), timeout)
            found = unmet(_roots(target, wanted), [target], environment)
            new = [wish for wish in (*found.missing, *found.mismatched) if wish not in asked]
            if not new:
                return self._checked(target, wanted, environment)
            asked += new
        raise InstallError(f"{self.kind} found no end of further requirements after {_ROUNDS} rounds")

    def _checked(self, target: Path, wanted: Wanted, environment: Environment) -> Filled:
        found = unmet(_roots(target, wanted), [target], environment)
        problems = [*found.conflicts, *(f"{wish} was not installed" for wish in found.missing)]
        if problems:
            raise InstallError("; ".join(sorted(problems)))
        return Filled(target, installed_in(target), frozenset(found.relies_on))

    async def _run(
        self, target: Path, wanted: Wanted, timeout: float, excludes: Sequence[str] | None = None
    ) -> Path | None:
        """Run the installer once and return the target, None when it cannot exclude. Raises InstallError."""
        scratch = target.with_name(f"{target.name}.scratch")
        try:
            argv = await in_thread(lambda: self._argv(scratch, target, wanted, excludes))
            # In the root folder: uv takes settings, such as indexes, from where it runs and from the folders above.
            # Those of the user and of the machine, which lie elsewhere, count as ever.
            result = await run_command(argv, timeout=timeout, env=self._environ())
        except CommandTimeoutError as error:
            raise InstallError(
                f"{self.kind} took longer than {timeout:g} s and was stopped ({TIMEOUT_VARIABLE} sets the limit)"
                f"{_tail(error.output)}"
            ) from error
        except OSError as error:
            raise InstallError(f"{self.command[0]} cannot be started: {error.strerror or error}") from error
        if result.returncode == 0:
            (target / ".lock").unlink(missing_ok=True)  # uv's own, for the time it installs
            return target
        if excludes is not None and "'--excludes'" in result.output and "unexpected argument" in result.output:
            return None
        raise InstallError(self._failure(result.returncode, result.output))

    def _argv(self, scratch: Path, target: Path, wanted: Wanted, excludes: Sequence[str] | None) -> list[str]:
        scratch.mkdir()
        target.mkdir()
        argv = [*self.command, "install", "--target", str(target)]
        if self.kind == "uv":
            argv += ["--python", self.python, "--no-sources", "--no-progress"]
            argv += ["--offline"] if self.offline else []
        else:
            argv += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
            argv += ["--no-index"] if self.offline else []
        if excludes is None:
            argv.append("--no-deps")
        else:
            argv += ["--excludes", _written(scratch / "excludes.txt", excludes)]
        if wanted.requirements:
            argv += ["-r", _written(scratch / "requirements.txt", [str(wish) for wish in wanted.requirements])]
        if wanted.project is not None:
            # A build leaves files behind: it gets a copy, and the module's own folder stays as it was fetched.
            copy = shutil.copytree(wanted.project, scratch / "project", symlinks=True)
            argv.append(str(copy))
        return argv

    def _environ(self) -> dict[str, str]:
        environ = {name: value for name, value in self.environ.items() if name not in ("PIP_TARGET", "PIP_USER")}
        environ.setdefault("UV_PYTHON_DOWNLOADS", "never")
        if self.kind == "uv" and "UV_CACHE_DIR" not in environ and not _has_writable_cache(environ):
            environ["UV_CACHE_DIR"] = str(self.cache)
        return environ

    def _failure(self, returncode: int, output: str) -> str:
        if self.kind == "pip" and "No module named pip" in output:
            return f"there is neither uv nor pip for {self.python}: install uv (it is a package called 'uv')"
        advice = ", and the network may not be used: run once without --offline" if self.offline else ""
        return f"{self.kind} failed (exit code {returncode}){advice}{_tail(output)}"


def find_installer(python: str, environ: Mapping[str, str], cache: Path, *, offline: bool = False) -> Installer:
    """Return uv, as the package of that name has it or from the path, else the interpreter's pip."""
    uv = _find_uv(environ)
    if uv is not None:
        return Installer("uv", (uv, "pip"), python, environ, cache, offline)
    return Installer("pip", pip_command(python), python, environ, cache, offline)


def pip_command(python: str) -> tuple[str, ...]:
    """Return how an interpreter's pip is run: neither its folder nor PYTHON* variables bring other modules in.

    Not isolated (-I): that would hide a pip that is installed for the user alone.
    """
    return (python, "-E", "-P", "-m", "pip")


def _find_uv(environ: Mapping[str, str]) -> str | None:
    try:
        from uv import find_uv_bin

        return str(find_uv_bin())
    except (ImportError, FileNotFoundError):
        return find_program("uv", environ.get("PATH"))


def _roots(target: Path, wanted: Wanted) -> list[Requirement]:
    """Return what was asked for, and everything that is there now: each has its own requirements."""
    from packaging.requirements import Requirement

    return [*wanted.requirements, *(Requirement(name) for name in installed_in(target))]


def _written(path: Path, lines: Sequence[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def _canonical(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _has_writable_cache(environ: Mapping[str, str]) -> bool:
    """Return whether uv can use its usual cache: there is a home, and it can be written to."""
    base = environ.get("XDG_CACHE_HOME") or (os.path.join(environ["HOME"], ".cache") if environ.get("HOME") else "")
    if not base:
        return False
    folder = Path(base, "uv")
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def _tail(output: str) -> str:
    """Return the last lines of an installer's output, below each other, without credentials of addresses."""
    lines = [line.rstrip() for line in _CREDENTIALS.sub("", output).splitlines() if line.strip()]
    return "".join(f"\n      {line}" for line in lines[-_SHOWN_LINES:])
