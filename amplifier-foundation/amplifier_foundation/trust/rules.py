"""Decide what needs a trusted project: code that a project names or holds, and settings that redirect credentials."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_foundation.bundles.layer import Layer
from amplifier_foundation.merge import module_key

if TYPE_CHECKING:
    from amplifier_foundation.trust.projects import NamedModule

#: Names of settings, in small letters and with `_`, that say where a provider sends what it sends, or whom it believes.
_EXACT: Final = re.compile(
    "address|api_base|authority|base|baseurl|cafile|capath|extra_body|insecure|port|region|resource|server|transport"
)
_PARTS: Final = re.compile(
    r"(^|_)(api_?keys?|auth|bearer|ca|cacert|certs?|certificates?|credentials?|endpoints?|headers?|hosts?|hostname"
    r"|identity|password|prox(y|ies)|secrets?|ssl|tls|token|ur[il]s?|verify)(_|$)"
)
#: Settings that look like the above by their name and are harmless: they count tokens.
_HARMLESS: Final = frozenset({"token_limit", "token_budget", "max_token"})


def needs_trust(entry: NamedModule, project: Path, home: Path) -> bool:
    """Return whether a module may only run when the project is trusted.

    That is so when the project's files name its source, or when its code lies in the project and the user's own
    settings do not name it. What is in the user's home is the user's, even when the home lies in the project. When
    nobody knows who named a source, it is taken for the project's.
    """
    path = entry.path or local_folder(entry.source)
    inside = path is not None and _is_inside(path, project) and not _is_inside(path, home)
    layer = entry.layer
    if inside:
        return not (layer is not None and layer.named_by == "user" and layer.owner == "user")
    if entry.source is None:
        return False
    if layer is None:
        return True
    return layer.named_by == "project" and not layer.given_by_user


def described_module(entry: NamedModule) -> str:
    """Return what would run, for a message."""
    from amplifier_foundation.sources.uri import without_secrets

    place = str(entry.path) if entry.path is not None else "an unknown place"
    where_from = without_secrets(entry.source) if entry.source else place
    return f"{entry.kind}: module {entry.key!r} from {where_from}"


def place_of(entry: NamedModule) -> str:
    """Return `file:line` of the words that name the module, or its folder when no file names it."""
    if entry.where is not None:
        return entry.where
    if not isinstance(entry.layer, Layer):
        return str(entry.path or entry.source or entry.kind)
    document = entry.layer.document
    keys: list[str | int] = list(entry.kind.split("."))
    found: Any = document.data
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    if isinstance(found, list):
        keys += [index for index, item in enumerate(found) if module_key(item) == entry.key][:1]
        keys.append("source")
    elif isinstance(found, dict):
        keys += [name for name, item in found.items() if isinstance(item, dict) and item.get("module") == entry.key][:1]
        keys.append("source")
    return document.where(*keys)


def decides_where_credentials_go(key: str) -> bool:
    """Return whether a dotted key is a provider's setting for an endpoint, a proxy, a certificate or a credential.

    A name that only resembles one needs trust too: asking once too often is better than sending a key away.
    """
    parts = key.split(".")
    if not any(part == "providers" or "provider" in part for part in parts):
        return False
    after_config = parts[parts.index("config") + 1 :] if "config" in parts else []
    if after_config[:1] == ["providers"]:  # the settings' own `config.providers.<module>.config.<name>`
        rest = after_config[1:]
        after_config = rest[rest.index("config") + 1 :] if "config" in rest else []
    return any(_is_sensitive(part) for part in after_config)


def _is_sensitive(name: str) -> bool:
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")
    if plain in _HARMLESS:
        return False
    return _EXACT.fullmatch(plain) is not None or _PARTS.search(plain) is not None


def local_folder(source: str | None) -> Path | None:
    """Return the folder that a source names on this machine; None for one that is fetched."""
    if source is None:
        return None
    if source.startswith("file://"):
        from urllib.parse import unquote

        path, _, fragment = source[len("file://") :].partition("#")
        part = fragment.removeprefix("subdirectory=") if fragment.startswith("subdirectory=") else ""
        return Path(unquote(path)) / unquote(part).lstrip("/")
    return Path(source) if source.startswith("/") else None


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())
