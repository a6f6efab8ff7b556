"""Where the host's pip and uv look for packages: their settings files and variables, and what uv has built in."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.sources.install import uv_program
from amplifier_foundation.sources.uri import without_secrets

_BUILT_IN: Final = re.compile(r"--index-url (https?://\S+)")
_PIP_NAMES: Final = ("index-url", "extra-index-url", "find-links", "no-index", "cert")
_YES: Final = frozenset({"1", "true", "yes", "on", "y", "t"})


class HostSettings(NamedTuple):
    """What is configured: indexes, the main ones first, and directories or pages of links."""

    indexes: list[str]
    links: list[str]
    #: The certificates, a file or a directory of them, that the installers are told to trust.
    certificates: str | None


def read_settings(environ: Mapping[str, str]) -> HostSettings:
    """Return what pip and uv are configured for; without a main index, the one that uv has built in.

    Raises TwinError (`host_index_invalid`) for a settings file that is damaged.
    """
    files = _uv_files(environ)
    indexes = [item for table in files for item in table.get("index", []) if item.get("explicit") is not True]
    own = [(_index(environ, item["url"], item.get("name", "")), item) for item in indexes]
    pip = _pip_settings(environ)
    given = environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL")
    in_files = [url for url, item in own if item.get("default") is True]
    in_files += [table["index-url"] for table in files if "index-url" in table]
    mains = [_index(environ, given)] if given else in_files[:1]
    mains += [pip["index-url"].strip()] if pip.get("index-url", "").strip() else []
    further = [_index(environ, item) for item in environ.get("UV_INDEX", "").split()]
    further += environ.get("UV_EXTRA_INDEX_URL", "").split()
    further += [url for url, item in own if item.get("default") is not True and item.get("format") != "flat"]
    further += [url for table in files for url in table.get("extra-index-url", [])]
    further += pip.get("extra-index-url", "").split()
    links = environ.get("UV_FIND_LINKS", "").replace(",", " ").split()
    links += [url for url, item in own if item.get("format") == "flat"]
    links += [url for table in files for url in table.get("find-links", [])] + pip.get("find-links", "").split()
    is_closed = any(text.lower() in _YES for text in (pip.get("no-index", ""), environ.get("UV_NO_INDEX", "")))
    if is_closed or any(table.get("no-index") is True for table in files):
        found = []
    else:
        found = [*(mains or [_built_in()]), *further]
    trusted = environ.get("SSL_CERT_FILE") or pip.get("cert") or environ.get("REQUESTS_CA_BUNDLE")
    return HostSettings(list(dict.fromkeys(found)), list(dict.fromkeys(links)), trusted)


def _built_in() -> str:
    """Ask uv which index it uses when none is configured."""
    # With this Python: the first on the path may be a shim that takes longer than everything else.
    options = ["--no-config", "--no-cache", "--offline", "--python", sys.executable, "--emit-index-url", "-"]
    environ = {"PATH": os.defpath, "HOME": "/nonexistent"}
    done = subprocess.run(
        [uv_program(), "pip", "compile", *options], input=b"", capture_output=True, env=environ, check=False
    )
    if found := _BUILT_IN.search(done.stdout.decode("utf-8", "replace")):
        return found[1]
    said = "no package index is configured, and uv does not name its own"
    raise TwinError("host_index_invalid", said, "set UV_DEFAULT_INDEX or PIP_INDEX_URL")


def _config_folders(environ: Mapping[str, str]) -> tuple[list[Path], Path, Path]:
    """Return the system's directories for settings, the user's, and the user's home."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    shared = [Path(item) for item in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if item]
    return shared, Path(environ.get("XDG_CONFIG_HOME") or home / ".config"), home


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    shared, own, home = _config_folders(environ)
    named = environ.get("PIP_CONFIG_FILE")
    files = [*(folder / "pip" / "pip.conf" for folder in shared), Path("/etc/pip.conf"), home / ".pip" / "pip.conf"]
    files += [own / "pip" / "pip.conf", Path(environ.get("VIRTUAL_ENV") or sys.prefix) / "pip.conf"]
    files += [Path(named)] if named else []
    found: dict[str, str] = {}
    for file in files if named != os.devnull else []:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8-sig")
        except (configparser.Error, ValueError) as error:
            raise _damaged(file, error) from error
        for section in filter(parser.has_section, ("global", "install", "download")):
            found |= {name.replace("_", "-"): value for name, value in parser.items(section) if value}
    variables = {name: environ.get(f"PIP_{name.upper().replace('-', '_')}") for name in _PIP_NAMES}
    return found | {name: value for name, value in variables.items() if value}


def _uv_files(environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the tables of uv's settings files, those that count more first."""
    shared, own, _ = _config_folders(environ)
    files = [folder / "uv" / "uv.toml" for folder in (own, *shared)] + [Path("/etc/uv/uv.toml")]
    if named := environ.get("UV_CONFIG_FILE"):
        files = [Path(named)]
    if environ.get("UV_NO_CONFIG", "").lower() in _YES:
        files = []
    found: list[dict[str, Any]] = []
    for file in filter(os.path.exists, files):
        try:
            content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            raise _damaged(file, error) from error
        found += [content.get("pip", {}), content]
    return found


def _index(environ: Mapping[str, str], text: str, name: str = "") -> str:
    """Return the URL of uv's `name=url`, with what uv's variables for that name say of user and password."""
    before, equals, after = text.partition("=")
    if equals and "/" not in before:
        name, text = before, after
    key = re.sub("[^A-Z0-9]", "_", name.upper())
    user, password = (environ.get(f"UV_INDEX_{key}_{part}", "") for part in ("USERNAME", "PASSWORD"))
    if not key or not (user or password):
        return text
    parts = urlsplit(text)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{place}"))


def _damaged(file: Path, error: Exception) -> TwinError:
    said = f"{file}: cannot be read as settings: {without_secrets(str(error))}"
    return TwinError("host_index_invalid", said, "repair or remove the file")
