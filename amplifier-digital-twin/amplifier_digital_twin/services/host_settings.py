"""Where the host's pip and uv look for packages: uv is asked, pip's settings files and variables are read."""

from __future__ import annotations

import configparser
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.sources.install import uv_program
from amplifier_foundation.sources.uri import without_secrets
from amplifier_kit.guard.processes.launch import run_program

_PIP_NAMES: Final = ("index-url", "extra-index-url", "find-links", "no-index", "cert")
_YES: Final = frozenset({"1", "true", "yes", "on", "y", "t"})


class HostSettings(NamedTuple):
    """What is configured: indexes, the main one first, and directories or pages of links."""

    indexes: list[str]
    links: list[str]
    #: The certificates, a file or a directory of them, that the installers are told to trust.
    certificates: str | None


def read_settings(environ: Mapping[str, str]) -> HostSettings:
    """Return what uv and pip are configured for; raises TwinError (`host_index_invalid`) for damaged settings."""
    pip, uv = _pip_settings(environ), _uv_settings(environ)
    links = [*uv["--find-links"], *pip.get("find-links", "").split()]
    mains, further = uv["--index-url"], [*uv["--extra-index-url"], *pip.get("extra-index-url", "").split()]
    if main := pip.get("index-url", "").strip():
        # uv always names an index. Its own default counts only where pip names none.
        mains = [*(mains if _names_index(environ, mains) else []), main]
    is_closed = pip.get("no-index", "").lower() in _YES or environ.get("UV_NO_INDEX", "").lower() in _YES
    trusted = environ.get("SSL_CERT_FILE") or pip.get("cert") or environ.get("REQUESTS_CA_BUNDLE")
    indexes = [] if is_closed else [*mains, *further]
    return HostSettings(list(dict.fromkeys(indexes)), list(dict.fromkeys(links)), trusted)


def _uv_settings(environ: Mapping[str, str], *options: str) -> dict[str, list[str]]:
    """Return the indexes and links that uv reports as its own."""
    # With this Python: the first on the path may be a shim that takes longer than everything else.
    argv = [uv_program(), "pip", "compile", *options, "--no-cache", "--offline", "--python", sys.executable]
    argv += ["--emit-index-url", "--emit-find-links", "-"]
    kept = {name: value for name, value in environ.items() if name not in ("UV_NO_CACHE", "UV_OFFLINE")}
    done = run_program(argv, timeout=60, environment=kept, is_split=True, data=b"")
    if done.returncode != 0:
        words = without_secrets(done.stderr.decode("utf-8", "replace")).strip()
        raise TwinError("host_index_invalid", f"uv cannot read its settings: {words}", "repair or remove the file")
    found: dict[str, list[str]] = {"--index-url": [], "--extra-index-url": [], "--find-links": []}
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        name, _, value = line.partition(" ")
        if name in found:
            found[name] += shlex.split(value)
    return found


def _names_index(environ: Mapping[str, str], mains: list[str]) -> bool:
    """Return whether uv is configured for these main indexes, and has not just built them in."""
    return mains != _uv_settings({"PATH": os.defpath, "HOME": "/nonexistent"}, "--no-config")["--index-url"]


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    shared = [Path(item) for item in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if item]
    named = environ.get("PIP_CONFIG_FILE")
    files = [*(folder / "pip" / "pip.conf" for folder in shared), Path("/etc/pip.conf"), home / ".pip" / "pip.conf"]
    files += [own / "pip" / "pip.conf", Path(environ.get("VIRTUAL_ENV") or sys.prefix) / "pip.conf"]
    found: dict[str, str] = {}
    for file in [*files, *([Path(named)] if named else [])] if named != os.devnull else []:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8-sig")
        except (configparser.Error, ValueError) as error:
            said = f"{file}: cannot be read as settings: {without_secrets(str(error))}"
            raise TwinError("host_index_invalid", said, "repair or remove the file") from error
        for section in filter(parser.has_section, ("global", "install", "download")):
            found |= {name.replace("_", "-"): value for name, value in parser.items(section) if value}
    variables = {name: environ.get(f"PIP_{name.upper().replace('-', '_')}") for name in _PIP_NAMES}
    return found | {name: value for name, value in variables.items() if value}
