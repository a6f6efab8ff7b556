"""Say what a profile is, for programs; and whether two of them provision the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_digital_twin.profile.model import Profile

if TYPE_CHECKING:
    from hashlib import _Hash

#: Raised when what a provisioned layer holds for the same profile changes, so that older ones are not used.
LAYER_VERSION: Final = 1
#: The parts that decide what provisioning does; checks, limits, artifacts and their like come after it.
_PROVISIONING: Final = (
    "base",
    "user",
    "environment",
    "network",
    "repositories",
    "rewrites",
    "packages",
    "uv",
    "mocks",
    "provision",
)


def describe(profile: Profile) -> dict[str, Any]:
    """Return the profile as JSON has it. Secrets are names only, here as everywhere."""
    described: dict[str, Any] = _plain(asdict(profile))
    described["environment"] = dict(profile.environment)
    described["user"]["home"] = profile.user.home
    for repository, shown in zip(profile.repositories, described["repositories"], strict=True):
        shown["name"] = repository.name
    return described


def fingerprint(profile: Profile, served: Mapping[str, str] | None = None) -> str:
    """Return the name of the layer that provisioning makes: 32 hexadecimal digits.

    Everything counts that influences provisioning, with the contents of files that are pushed and wheels that are
    served. `served` adds what only a launch knows: commits of the mirror, hashes of built wheels. Reads files: call
    it off the event loop. Raises OSError for files that cannot be read.
    """
    import hashlib
    import json

    described = describe(profile)
    parts: dict[str, Any] = {name: described[name] for name in _PROVISIONING}
    # Where a file lies on the host says nothing about what is in it, and differs between machines.
    parts["repositories"] = [{"url": item.url, "ref": item.ref} for item in profile.repositories]
    for item, shown in zip(profile.provision.files, parts["provision"]["files"], strict=True):
        shown["src"] = _content(item.src)
    for package, shown in zip(profile.packages, parts["packages"], strict=True):
        path = package.wheel_path
        shown["wheel_path"] = [path.name, _content(path)] if path is not None else None
    if profile.base.tar is not None:
        parts["base"]["tar"] = profile.base.tar.sha256
    parts["secrets"] = sorted(secret.env for secret in profile.secrets)
    parts["served"] = dict(served or {})
    parts["version"] = LAYER_VERSION
    text = json.dumps(parts, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _content(path: Path) -> str:
    """Return one hash for a file, or for everything in a folder: names, permissions, contents, where links lead."""
    import hashlib

    total = hashlib.sha256()
    if not path.is_dir():
        _add(total, "", path, path.stat().st_mode)
        return total.hexdigest()
    for folder, folders, files in os.walk(path):
        folders.sort()
        for name in sorted([*files, *folders]):
            entry = Path(folder, name)
            _add(total, str(entry.relative_to(path)), entry, entry.lstat().st_mode)
    return total.hexdigest()


def _add(total: _Hash, name: str, path: Path, mode: int) -> None:
    import hashlib
    import stat

    # A path of the system can hold any bytes: what is no Unicode is kept as it came.
    total.update(f"{len(os.fsencode(name))}:".encode("ascii") + os.fsencode(name) + f":{mode:o}:".encode("ascii"))
    if stat.S_ISLNK(mode):
        total.update(os.fsencode(os.readlink(path)))
    elif stat.S_ISREG(mode):
        with path.open("rb") as file:
            total.update(hashlib.file_digest(file, "sha256").digest())
