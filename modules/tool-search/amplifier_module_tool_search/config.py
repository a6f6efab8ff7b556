"""The config keys of the module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from amplifier_kit.config import Config, Count, Paths, PathText, Seconds, expects
from amplifier_module_tool_search.glob_pattern import Glob

__all__ = ["EXCLUSIONS", "Engine", "GlobConfig", "GrepConfig", "Limits", "SearchConfig"]

Engine = Literal["auto", "rg", "python"]

#: Folders that tools make and that are rarely meant, by name.
EXCLUSIONS: Final = (
    *(".git", ".hg", ".svn", "node_modules", "bower_components", ".venv", "venv", "__pycache__"),
    *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".eggs", "build", "dist"),
    *("target", ".next", ".cache"),
)


def _folder_names(names: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip("/") for name in names)
    for name in names:
        if not name or "/" in name:
            raise ValueError(f"{name!r} is not the name of a folder")
        Glob.parse(name)
    return names


_Names = Annotated[tuple[str, ...], Strict(False), AfterValidator(_folder_names), expects("a list of folder names")]


class Limits(Config):
    """How many entries an answer has when the call does not say."""

    files_with_matches: Count = Field(200, description="Files in the answer of a search for files.")
    content: Count = Field(500, description="Lines in the answer of a search for lines.")
    count: Count = Field(200, description="Files in the answer of a count.")


class GrepConfig(Config):
    """The keys under `grep`."""

    max_file_size: Count = Field(10 * 1024 * 1024, description="Bytes of the largest file that is searched.")
    timeout: Seconds = Field(60.0, description="Seconds for one search.")
    exclusions: _Names = Field(EXCLUSIONS, description="Folders that are left out, by name.")
    default_limits: Limits = Field(default_factory=Limits.model_construct)


class GlobConfig(Config):
    """The keys under `glob`."""

    max_results: Count = Field(500, description="Files in one answer when the call does not say.")
    timeout: Seconds = Field(60.0, description="Seconds for one search.")
    exclusions: _Names = Field(EXCLUSIONS, description="Folders that are left out, by name.")


class SearchConfig(Config):
    """What a bundle may set."""

    working_dir: PathText | None = Field(
        None, description="Where relative paths begin; null for the session's working directory."
    )
    allowed_paths: Paths | None = Field(None, description="Where files may be searched; null for everywhere.")
    engine: Engine = Field("auto", description="What searches: ripgrep where it is installed, or always one of both.")
    max_results: Count | None = Field(None, description="Every limit that is not set by itself.")
    grep: GrepConfig = Field(default_factory=GrepConfig.model_construct)
    glob: GlobConfig = Field(default_factory=GlobConfig.model_construct)

    @model_validator(mode="before")
    @classmethod
    def _spread_max_results(cls, data: Any) -> Any:
        """Set every limit that is not set by itself."""
        limit = data.get("max_results") if isinstance(data, Mapping) else None
        if type(limit) is not int or limit < 1:
            return data
        limits = dict.fromkeys(Limits.model_fields, limit)
        grep = _fill(data.get("grep"), {"default_limits": limits})
        if isinstance(grep, dict):
            grep["default_limits"] = _fill(grep["default_limits"], limits)
        return {**data, "grep": grep, "glob": _fill(data.get("glob"), {"max_results": limit})}


def _fill(section: Any, defaults: Mapping[str, Any]) -> Any:
    """Return a section with defaults for missing keys; anything but a section as it is."""
    if section is not None and not isinstance(section, Mapping):
        return section
    return {**defaults, **{key: value for key, value in (section or {}).items() if value is not None}}
