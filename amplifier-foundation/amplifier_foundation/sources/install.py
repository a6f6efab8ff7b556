"""Install distributions with uv into folders beside the program: each folder is complete or absent.

A folder is named after a hash of everything that decides its content.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from amplifier_foundation.errors import FoundationError
from amplifier_foundation.sources.staging_folder import folder_lock, move_into_place, staging_folder
from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_command

#: Seconds one installation may take unless $AMPLIFIER_INSTALL_TIMEOUT_S says otherwise.
DEFAULT_TIMEOUT: Final = 600.0
TIMEOUT_VARIABLE: Final = "AMPLIFIER_INSTALL_TIMEOUT_S"
_SHOWN_LINES: Final = 20
_CREDENTIALS: Final = re.compile(r"(?<=://)[^/\s@]+@")


class InstallError(FoundationError):
    """Something cannot be installed; the text ends with the output of uv."""

    code = "install_failed"


def install_timeout(environ: Mapping[str, str]) -> float:
    """Return how many seconds an installation may take. Raises InstallError for an invalid setting."""
    text = environ.get(TIMEOUT_VARIABLE, "").strip()
    if not text:
        return DEFAULT_TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise InstallError(f"invalid {TIMEOUT_VARIABLE}={text!r}: expected a number of seconds above 0")
    return seconds


def uv_program() -> str:
    """Return the uv that is installed with the program."""
    from uv import find_uv_bin

    return str(find_uv_bin())


@dataclass(frozen=True)
class Installer:
    """Runs `uv pip install` for one interpreter, with the settings of the user and never those of a project."""

    python: str
    environ: Mapping[str, str]
    #: Where uv caches downloads when the user's home cannot be written to.
    cache: Path
    offline: bool = False
    command: tuple[str, ...] = ()

    async def install(self, target: Path, options: Sequence[str]) -> None:
        """Install into the folder `target`, which uv creates. Raises InstallError."""
        argv = [*(self.command or (uv_program(), "pip")), "install", "--target", str(target)]
        argv += ["--python", self.python, "--no-progress", *(["--offline"] if self.offline else []), *options]
        timeout = install_timeout(self.environ)
        try:
            # It runs in the root folder: uv reads settings, such as indexes, from where it runs and the folders above.
            result = await run_command(argv, timeout=timeout, env=self._environ())
        except CommandTimeoutError as error:
            raise InstallError(
                f"uv took longer than {timeout:g} s and was stopped ({TIMEOUT_VARIABLE} sets the limit)"
                f"{output_tail(error.output)}"
            ) from error
        except OSError as error:
            raise InstallError(f"{argv[0]} cannot be started: {error.strerror or error}") from error
        if result.returncode != 0:
            advice = ", and the network may not be used: run once without --offline" if self.offline else ""
            raise InstallError(f"uv failed (exit code {result.returncode}){advice}{output_tail(result.output)}")
        (target / ".lock").unlink(missing_ok=True)  # uv's own, for the time it installs

    def _environ(self) -> dict[str, str]:
        environ = {"UV_PYTHON_DOWNLOADS": "never", **self.environ}
        # Users who have set up pip alone expect its index to be used.
        if "PIP_INDEX_URL" in environ and not {"UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_CONFIG_FILE"} & environ.keys():
            environ["UV_DEFAULT_INDEX"] = environ["PIP_INDEX_URL"]
        if "UV_CACHE_DIR" not in environ and not _has_writable_cache(environ):
            environ["UV_CACHE_DIR"] = str(self.cache)
        return environ


def content_key(facts: Iterable[str | bytes], python: str = sys.executable) -> str:
    """Return 16 hex digits for these facts and this interpreter. Raises OSError when the interpreter is gone.

    The interpreter's own time counts: a rebuilt environment has the same path and version, but lost what was installed.
    """
    version = ".".join(str(part) for part in sys.version_info[:3])
    interpreter = (python, version, sys.implementation.cache_tag or "", str(os.lstat(python).st_mtime_ns))
    digest = hashlib.sha256()
    for fact in (*interpreter, *facts):
        content = fact.encode("utf-8", "surrogateescape") if isinstance(fact, str) else fact
        digest.update(len(content).to_bytes(8, "big"))  # so that no two lists of facts read the same
        digest.update(content)
    return digest.hexdigest()[:16]


async def fill_once(
    folder: Path, fill: Callable[[Path], Awaitable[Path]], is_usable: Callable[[Path], bool], timeout: float
) -> None:
    """Make sure that `folder` exists and is usable, filled by one process while the others wait.

    `fill` gets an empty staging folder and returns the folder to move into place. Raises what it raises, FileBusyError
    when another process takes longer than `timeout` seconds, and OSError.
    """
    if is_usable(folder):
        return
    async with folder_lock(folder, timeout):
        if is_usable(folder):
            return  # another process did it while this one waited
        async with staging_folder(folder) as staging:
            move_into_place(await fill(staging), folder)


def _has_writable_cache(environ: Mapping[str, str]) -> bool:
    """Return whether uv can use its usual cache: there is a home, and it can be written to."""
    base = environ.get("XDG_CACHE_HOME") or (os.path.join(environ["HOME"], ".cache") if environ.get("HOME") else "")
    if not base:
        return False
    folder = Path(base, "uv")
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def output_tail(output: str) -> str:
    """Return the last lines of uv's output without the credentials in addresses."""
    lines = [line.rstrip() for line in _CREDENTIALS.sub("", output).splitlines() if line.strip()]
    return "".join(f"\n      {line}" for line in lines[-_SHOWN_LINES:])
