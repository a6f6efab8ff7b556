"""Where the host's pip and uv look for packages: their settings files and variables, read, never run."""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.sources.uri import without_secrets

_SECTIONS: Final = ("global", "install", "download")
_YES: Final = frozenset({"1", "true", "yes", "on", "y", "t"})


@dataclass
class HostSettings:
    """What is configured: the main index of each installer, further ones, and folders or pages of links."""

    #: In the order in which they count; the main index first.
    indexes: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    #: Set when an installer names its main index itself, so that its built-in one is not used.
    has_main: bool = False
    #: Set when an installer is told to use no index at all.
    is_closed: bool = False
    #: The certificates that pip is told to trust.
    certificates: str | None = None

    def add_main(self, url: str) -> None:
        """Take a main index."""
        self.has_main = True
        if url not in self.indexes:
            self.indexes.insert(0, url)

    def add(self, indexes: Iterable[str] = (), links: Iterable[str] = ()) -> None:
        """Take further places, each once."""
        self.indexes += [url for url in dict.fromkeys(indexes) if url not in self.indexes]
        self.links += [place for place in dict.fromkeys(links) if place not in self.links]


def read_settings(environ: Mapping[str, str]) -> HostSettings:
    """Return what pip and uv are told by their files and variables; raise TwinError for a file that is damaged."""
    settings = HostSettings()
    _read_uv(settings, environ)
    _read_pip(settings, environ)
    return settings


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or os.path.expanduser("~"))


def _config_folders(environ: Mapping[str, str]) -> tuple[list[Path], Path]:
    """Return the system's folders for settings, and the user's."""
    shared = [Path(item) for item in environ.get("XDG_CONFIG_DIRS", "/etc/xdg").split(":") if item]
    return shared, Path(environ.get("XDG_CONFIG_HOME") or _home(environ) / ".config")


def _read_pip(settings: HostSettings, environ: Mapping[str, str]) -> None:
    found: dict[str, str] = {}
    for file in _pip_files(environ):
        found |= _pip_file(file)
    names = ("index-url", "extra-index-url", "find-links", "no-index", "cert")
    for name in names:
        if variable := environ.get(f"PIP_{name.upper().replace('-', '_')}"):
            found[name] = variable
    if found.get("no-index", "").lower() in _YES:
        settings.is_closed = True
    elif main := found.get("index-url", "").strip():
        settings.add_main(main)
    if not settings.is_closed:
        settings.add(indexes=found.get("extra-index-url", "").split())
    settings.add(links=found.get("find-links", "").split())
    settings.certificates = found.get("cert")


def _pip_files(environ: Mapping[str, str]) -> list[Path]:
    """Return pip's settings files, those that count more later."""
    named = environ.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return []
    shared, own = _config_folders(environ)
    files = [*(folder / "pip" / "pip.conf" for folder in shared), Path("/etc/pip.conf")]
    files += [_home(environ) / ".pip" / "pip.conf", own / "pip" / "pip.conf"]
    files.append(Path(environ.get("VIRTUAL_ENV") or sys.prefix) / "pip.conf")
    return [*files, Path(named)] if named else files


def _pip_file(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text(encoding="utf-8-sig"), str(file))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    except (configparser.Error, ValueError) as error:
        raise _damaged(file, error) from error
    sections = [section for section in _SECTIONS if parser.has_section(section)]
    return {name.replace("_", "-"): value for section in sections for name, value in parser.items(section) if value}


def _read_uv(settings: HostSettings, environ: Mapping[str, str]) -> None:
    if main := environ.get("UV_DEFAULT_INDEX") or environ.get("UV_INDEX_URL"):
        settings.add_main(_with_credentials(_unnamed(main), _name(main), environ))
    named = [item for item in (environ.get("UV_INDEX", "").split()) if item]
    settings.add(indexes=[_with_credentials(_unnamed(item), _name(item), environ) for item in named])
    settings.add(indexes=environ.get("UV_EXTRA_INDEX_URL", "").split())
    settings.add(links=[item for item in environ.get("UV_FIND_LINKS", "").replace(",", " ").split() if item])
    if environ.get("UV_NO_INDEX", "").lower() in _YES:
        settings.is_closed = True
    for file in _uv_files(environ):
        _uv_file(settings, file, environ)


def _uv_files(environ: Mapping[str, str]) -> list[Path]:
    """Return uv's settings files, those that count more first."""
    if environ.get("UV_NO_CONFIG", "").lower() in _YES:
        return []
    if named := environ.get("UV_CONFIG_FILE"):
        return [Path(named)]
    shared, own = _config_folders(environ)
    return [own / "uv" / "uv.toml", *(folder / "uv" / "uv.toml" for folder in shared), Path("/etc/uv/uv.toml")]


def _uv_file(settings: HostSettings, file: Path, environ: Mapping[str, str]) -> None:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    except ValueError as error:
        raise _damaged(file, error) from error
    for table in (content.get("pip", {}), content):
        if table.get("no-index") is True:
            settings.is_closed = True
        for item in table.get("index", []):
            _uv_index(settings, item, environ)
        if isinstance(main := table.get("index-url"), str) and not settings.has_main:
            settings.add_main(main)
        settings.add(indexes=table.get("extra-index-url", []), links=table.get("find-links", []))


def _uv_index(settings: HostSettings, item: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    # An explicit index is only for packages that a project pins to it.
    if item.get("explicit") is True or not isinstance(item.get("url"), str):
        return
    url = _with_credentials(item["url"], str(item.get("name", "")), environ)
    if item.get("default") is True:
        if not settings.has_main:
            settings.add_main(url)
    elif item.get("format") == "flat":
        settings.add(links=[url])
    else:
        settings.add(indexes=[url])


def _unnamed(text: str) -> str:
    """Return the URL of uv's `name=url`."""
    name, equals, url = text.partition("=")
    return url if equals and "/" not in name else text


def _name(text: str) -> str:
    return text.partition("=")[0] if _unnamed(text) != text else ""


def _with_credentials(url: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the URL with what uv's variables for that index say of user and password."""
    key = "".join(letter if letter.isalnum() else "_" for letter in name).upper()
    user = environ.get(f"UV_INDEX_{key}_USERNAME", "")
    password = environ.get(f"UV_INDEX_{key}_PASSWORD", "")
    if not key or not (user or password):
        return url
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(password, safe='')}@{place}"))


def _damaged(file: Path, error: Exception) -> TwinError:
    said = f"{file}: cannot be read as settings: {without_secrets(str(error))}"
    return TwinError("host_index_invalid", said, "repair or remove the file")
