"""One skill: what its front matter says of it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import field
from datetime import date
from pathlib import Path
from typing import Any, Final

from amplifier_kit.front_matter import FrontMatter, FrontMatterError, plain, value_of
from amplifier_kit.struct import FrozenStruct

FILE: Final = "SKILL.md"
_LONGEST_NAME: Final = 128
_LONGEST_DESCRIPTION: Final = 4096
#: Separators of paths, and what cannot be seen or would break a line.
_NO_NAME: Final = r"[/\\\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
_SHORTCUT: Final = r"[a-z][a-z0-9_-]*"
_FLAG_KEYS: Final = ("disable-model-invocation", "user-invocable", "auto-load")
#: Keys that need a child session, or that would run something.
FORK_KEYS: Final = ("agent", "model_role", "provider_preferences")


class Skill(FrozenStruct):
    """A SKILL.md as its front matter describes it; the text below is read when somebody wants it."""

    name: str
    description: str
    file: Path
    #: The skills folder in which it was found.
    source: Path
    version: str | None = None
    license: str | None = None
    compatibility: str | None = None
    allowed_tools: tuple[str, ...] = ()
    #: Whether it runs in a child session: `context: fork`.
    is_fork: bool = False
    #: A short name for the command of the user that calls it.
    shortcut: str | None = None
    #: Whether the model may load it.
    is_for_model: bool = True
    #: Whether it is offered to the user.
    is_for_user: bool = True
    #: Whether its text is given to the model without being asked for.
    is_auto: bool = False
    metadata: Mapping[str, Any] = field(default_factory=dict)
    #: What the front matter asks for that is not done here.
    ignored: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Return where its other files are."""
        return self.file.parent


def name_problem(name: str) -> str | None:
    """Return why a text cannot be the name of a skill, None when it can."""
    if not name.strip() or name.strip(".") == "":
        return "a skill's name must not be empty"
    if len(name) > _LONGEST_NAME:
        return f"a skill's name has at most {_LONGEST_NAME} characters"
    if re.search(_NO_NAME, name) or ".." in name:
        return "a skill's name must not contain slashes, '..' or invisible characters"
    return None


def normal(name: str) -> str:
    """Return a name in the form in which names are compared."""
    return unicodedata.normalize("NFC", name.strip())


def read_skill(front: FrontMatter, file: Path, source: Path) -> Skill:
    """Return the skill that a front matter describes; raise FrontMatterError for what makes it none."""
    data = front.data
    name = normal(_required(front, "name"))
    if (problem := name_problem(name)) is not None:
        raise FrontMatterError(front.lines.get("name", 1), problem)
    description = " ".join(_required(front, "description").split())
    flags = {key: _flag(front, key) for key in _FLAG_KEYS}
    metadata = data.get("metadata")
    return Skill(
        name=name,
        description=description[:_LONGEST_DESCRIPTION],
        file=file,
        source=source,
        version=_text(data.get("version")) or _text(metadata.get("version") if isinstance(metadata, dict) else None),
        license=_text(data.get("license")),
        compatibility=_text(data.get("compatibility")),
        allowed_tools=_names(value_of(data, "allowed-tools")),
        is_fork=data.get("context") == "fork",
        shortcut=_shortcut(front),
        # What is not clearly a no keeps the model out: the author wanted to say something.
        is_for_model=flags["disable-model-invocation"] is None or flags["disable-model-invocation"] is False,
        is_for_user=flags["user-invocable"] is not False,
        is_auto=flags["auto-load"] is True,
        metadata=plain(metadata) if isinstance(metadata, dict) else {},
        ignored=tuple(key for key in ("hooks", *FORK_KEYS) if value_of(data, key) is not None),
    )


def _shortcut(front: FrontMatter) -> str | None:
    value = front.data.get("shortcut")
    if value in (None, False, ""):
        return None
    name = _text(value)
    if name is None or not re.fullmatch(_SHORTCUT, name.lower()):
        raise FrontMatterError(
            front.lines.get("shortcut", 1),
            f"the shortcut {value!r} must begin with a letter and have only letters, digits, '-' and '_'",
        )
    return name.lower()


def _required(front: FrontMatter, key: str) -> str:
    value = front.data.get(key)
    if value is None:
        raise FrontMatterError(front.lines.get(key, 1), f"the key {key!r} is missing")
    text = _text(value)
    if text is None or not text.strip():
        raise FrontMatterError(front.lines.get(key, 1), f"the key {key!r} must be text that is not empty")
    return text


def _text(value: Any) -> str | None:
    """Return a plain value as text: a version 1.0 without quotes is a number, and 2026-01-31 is a date."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float, date)) and not isinstance(value, bool) else None


def _flag(front: FrontMatter, key: str) -> Any:
    value = value_of(front.data, key)
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    return value


def _names(value: Any) -> tuple[str, ...]:
    """Return names from a list, or from a text with commas or blanks between them; a bracket keeps its blanks."""
    if isinstance(value, str):
        value = re.findall(r"(?:\([^)]*\)|[^\s,(])+", value)
    if not isinstance(value, list):
        return ()
    return tuple(" ".join(name.split()) for name in value if isinstance(name, str) and name.strip())
