"""Read what a plan says about the sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

MODES: Final = ("required", "auto", "off")
_KEYS: Final = ("mode", "network", "writable", "readable", "environment")


class SandboxSettings(NamedTuple):
    """Whether commands run in a sandbox, and what it lets through."""

    #: `required`: not without it. `auto`: where it can be had. `off`: never.
    mode: str = "auto"
    #: Whether the host's network can be reached.
    network: bool = False
    #: Folders that can be written besides the project; a relative one is meant from there.
    writable: tuple[str, ...] = ()
    #: Folders and files that can be read besides the system and the project.
    readable: tuple[str, ...] = ()
    #: Variables to pass on although they are named like secrets, or lead out of the sandbox.
    environment: tuple[str, ...] = ()

    @classmethod
    def from_config(cls, value: Any, base: SandboxSettings | None = None) -> SandboxSettings:
        """Read a mode or a mapping; what it does not say is as in `base`.

        Raises ValueError that names the key and what was expected. YAML reads a bare `off` as false and `on` as true;
        both are taken for what was written.
        """
        base = base or cls()
        if value is None:
            return base
        if isinstance(value, bool | str):
            return base._replace(mode=_mode("sandbox", value))
        if not isinstance(value, Mapping):
            raise _wrong("sandbox", f"one of {', '.join(MODES)}, or a mapping with {', '.join(_KEYS)}", value)
        unknown = sorted(set(value) - set(_KEYS), key=str)
        if unknown:
            # Not ignored: a key that is misspelt would leave something open, or shut, that was meant otherwise.
            raise _wrong("sandbox", f"a mapping with no other keys than {', '.join(_KEYS)}", unknown)
        given = {key: _READERS[key](f"sandbox.{key}", entry) for key, entry in value.items() if entry is not None}
        return base._replace(**given)

    @classmethod
    def layered(cls, session: Any, module: Any) -> SandboxSettings:
        """Return what holds for a module: its own config over the session's, which may require the sandbox.

        What a session requires, a module can only make stricter. Raises ValueError.
        """
        outer = cls.from_config(session)
        inner = cls.from_config(module, outer)
        if outer.mode != "required":
            return inner
        return outer._replace(network=outer.network and inner.network)

    def shut(self) -> SandboxSettings:
        """Return what is left of settings that come from somebody who may not open anything."""
        return SandboxSettings("required" if self.mode == "required" else "auto")

    def is_looser(self, session: Any, module: Any) -> bool:
        """Tell whether the module's config asked for more than these settings, which were layered, grant."""
        return self != SandboxSettings.from_config(module, SandboxSettings.from_config(session))


def _mode(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "auto" if value else "off"
    if value not in MODES:
        raise _wrong(key, f"one of {', '.join(MODES)}", value)
    return str(value)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(key, "true or false", value)
    return value


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(text, str) and text.strip() for text in value):
        raise _wrong(key, "a list of texts that are not empty", value)
    return tuple(value)


def _paths(key: str, value: Any) -> tuple[str, ...]:
    paths = _texts(key, value)
    for path in paths:
        if "\0" in path or os.path.normpath(path) in ("/", "//"):
            raise _wrong(key, "a list of paths, none of them the root folder", value)
    return paths


_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "mode": _mode,
    "network": _flag,
    "writable": _paths,
    "readable": _paths,
    "environment": _texts,
}


def _wrong(key: str, expected: str, value: Any) -> ValueError:
    return ValueError(f"config key {key!r} must be {expected}, got {value!r}")
