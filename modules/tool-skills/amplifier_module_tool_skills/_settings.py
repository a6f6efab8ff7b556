"""Read the config."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Literal, cast, get_args

logger = logging.getLogger(__name__)

Role = Literal["system", "user", "assistant"]
Placement = Literal["request", "prefix"]

_ALIAS: Final = "skills_dir"


@dataclass(frozen=True)
class Visibility:
    """How the model is told which skills there are."""

    enabled: bool = True
    #: More are counted, not named.
    max_skills_visible: int = 50
    #: `request`: with each request, never stored; `prefix`: in the system part.
    placement: Placement = "request"
    priority: int = 20
    inject_role: Role = "user"

    @classmethod
    def from_config(cls, config: Any) -> Visibility:
        """Read the section; raise ValueError that names the key and what was expected."""
        if isinstance(config, bool):
            return cls(enabled=config)
        given = _known(cls, "visibility", config)
        return cls(
            enabled=_flag("visibility.enabled", given.get("enabled", cls.enabled)),
            max_skills_visible=_count(
                "visibility.max_skills_visible", given.get("max_skills_visible", cls.max_skills_visible)
            ),
            placement=cast("Placement", _one_of(Placement, "visibility.placement", given, cls.placement)),
            priority=_integer("visibility.priority", given.get("priority", cls.priority)),
            inject_role=cast("Role", _one_of(Role, "visibility.inject_role", given, cls.inject_role)),
        )


@dataclass(frozen=True)
class Settings:
    """What a bundle may set; the README has the table."""

    #: Where skills are looked for, in place of the plan's and the default folders.
    skills_dirs: tuple[str, ...] | None = None
    #: Further folders.
    skills: tuple[str, ...] = ()
    visibility: Visibility = field(default_factory=Visibility)
    #: What is read of one SKILL.md.
    max_skill_bytes: int = 200_000
    working_dir: str | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Settings:
        """Read a config; raise ValueError that names the key and what was expected."""
        given = _known(cls, "", config)
        dirs = given.get("skills_dirs", given.get(_ALIAS))
        return cls(
            skills_dirs=None if dirs is None else texts("skills_dirs", dirs),
            skills=texts("skills", given.get("skills", ())),
            visibility=Visibility.from_config(given.get("visibility")),
            max_skill_bytes=_count("max_skill_bytes", given.get("max_skill_bytes", cls.max_skill_bytes), least=1),
            working_dir=_path("working_dir", given.get("working_dir")),
        )


def texts(key: str, value: Any) -> tuple[str, ...]:
    """Return a text, or a list of texts, as a tuple; raise ValueError that names the key for anything else."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)) or not all(isinstance(one, str) and one.strip() for one in listed):
        raise wrong(key, "a folder or a list of folders", value)
    return tuple(listed)


def wrong(key: str, expected: str, value: Any) -> ValueError:
    """Return the error for a key that has the wrong value."""
    return ValueError(f"tool-skills: config key {key!r} must be {expected}, got {value!r}")


def _known(section: type, name: str, config: Any) -> dict[str, Any]:
    """Return the keys that are set; those that nobody knows are ignored with a warning."""
    if config is not None and not isinstance(config, Mapping):
        raise wrong(name or "config", "a mapping", config)
    given = {key: value for key, value in (config or {}).items() if value is not None}
    known = {one.name for one in fields(section)} | ({_ALIAS} if not name else set())
    unknown = sorted(f"{name}.{key}" if name else str(key) for key in given if key not in known)
    if unknown:
        logger.warning("tool-skills: unknown config keys %s are ignored", unknown)
    return given


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise wrong(key, "true or false", value)
    return value


def _integer(key: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong(key, "a whole number", value)
    return value


def _count(key: str, value: Any, least: int = 0) -> int:
    if _integer(key, value) < least:
        raise wrong(key, f"a whole number of at least {least}", value)
    return int(value)


def _one_of(choices: Any, key: str, given: Mapping[str, Any], default: str) -> str:
    value = given.get(key.rpartition(".")[2], default)
    if value not in get_args(choices):
        raise wrong(key, f"one of {', '.join(get_args(choices))}", value)
    return str(value)


def _path(key: str, value: Any) -> str | None:
    if value is not None and (not isinstance(value, str) or not value or "\0" in value):
        raise wrong(key, "a path", value)
    return value
