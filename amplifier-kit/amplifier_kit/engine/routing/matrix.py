"""Matrices: files that say which models fit a role.

    name: mine
    description: What we use
    roles:
      general:
        description: Everyday work
        candidates:
          - {provider: anthropic, model: claude-sonnet-*}
      fast: {description: Errands, candidates: [{provider: ollama, model: "llama3*"}]}

The roles `general` and `fast` must be there. Of the candidates, the best come first; a model may be a pattern.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple

__all__ = [
    "FAST",
    "GENERAL",
    "Candidate",
    "Matrix",
    "MatrixError",
    "Role",
    "find_matrices",
    "load_matrix",
    "read_candidates",
    "with_overrides",
]

#: Roles that every matrix has.
GENERAL: Final = "general"
FAST: Final = "fast"
#: The place of the matrix's own candidates among those of an override.
_BASE: Final = "base"

_SHIPPED: Final = Path(__file__).parent / "matrices"

Candidate = dict[str, Any]


class MatrixError(ValueError):
    """A matrix is missing or wrong; the message says where and what was expected."""


class Role(NamedTuple):
    """One role: what it is for, and the candidates, best first."""

    description: str
    candidates: tuple[Candidate, ...]


class Matrix(NamedTuple):
    """One matrix."""

    name: str
    description: str
    updated: str
    roles: dict[str, Role]
    file: Path


def find_matrices(folders: Sequence[Path] = ()) -> dict[str, Path]:
    """Return the file of every matrix by name: those in the folders, in their order, before the shipped ones."""
    found: dict[str, Path] = {}
    for folder in (*folders, _SHIPPED):
        for file in sorted(folder.glob("*.yaml")) if folder.is_dir() else ():
            found.setdefault(file.stem, file)
    return found


def load_matrix(name: str, folders: Sequence[Path] = ()) -> Matrix:
    """Return the matrix of that name; raises MatrixError for an unknown or a wrong one, and OSError."""
    known = find_matrices(folders)
    if name not in known:
        raise MatrixError(f"Matrix '{name}' not found. Available: {', '.join(sorted(known))}")
    file = known[name]
    data, lines = _read(file)
    roles = data.get("roles")
    if not isinstance(roles, Mapping):
        raise MatrixError(f"{file}:{lines.get(('roles',), 1)}: 'roles' must be a mapping of roles, got {roles!r:.200}")
    found = {
        str(role): _role(value, f"{file}:{lines.get(('roles', str(role)), 1)}: role {str(role)!r}")
        for role, value in roles.items()
    }
    missing = [role for role in (GENERAL, FAST) if role not in found]
    if missing:
        raise MatrixError(f"{file}:{lines[('roles',)]}: a matrix needs the role {missing[0]!r}")
    return Matrix(name, str(data.get("description") or ""), str(data.get("updated") or ""), found, file)


def with_overrides(roles: Mapping[str, Role], overrides: Mapping[str, Any], where: str) -> dict[str, Role]:
    """Return roles with those of `overrides` in their place; `base` among the candidates stands for the ones replaced.

    Raises MatrixError, whose message begins with `where`.
    """
    merged = dict(roles)
    for name, value in overrides.items():
        base = merged.get(str(name), Role("", ()))
        described = value.get("description") if isinstance(value, Mapping) else None
        candidates = read_candidates(value, f"{where}.{name}", base.candidates)
        merged[str(name)] = Role(str(described or base.description), candidates)
    return merged


def _role(value: Any, where: str) -> Role:
    described = value.get("description") if isinstance(value, Mapping) else None
    return Role(str(described or ""), read_candidates(value, where))


def read_candidates(value: Any, where: str, base: Sequence[Candidate] | None = None) -> tuple[Candidate, ...]:
    """Return the candidates of a role: a list, or a mapping with one; raises MatrixError.

    With a `base`, one of them may be the word "base", for all of those.
    """
    listed = value.get("candidates") if isinstance(value, Mapping) and "candidates" in value else value
    listed = [listed] if isinstance(listed, Mapping) else listed
    if not isinstance(listed, list | tuple):
        raise MatrixError(f"{where}: must have 'candidates', a list of {{provider, model}}, got {value!r:.200}")
    if base is not None and listed.count(_BASE) > 1:
        raise MatrixError(f"{where}: 'base' may be there once")
    found: list[Candidate] = []
    for candidate in listed:
        if base is not None and candidate == _BASE:
            found += base
            continue
        if not isinstance(candidate, Mapping) or not isinstance(candidate.get("provider"), str):
            raise MatrixError(f"{where}: each candidate needs a 'provider', got {candidate!r:.200}")
        if candidate.get("model") is not None and not isinstance(candidate["model"], str):
            raise MatrixError(f"{where}: 'model' must be a text, got {candidate['model']!r:.200}")
        found.append({key: candidate[key] for key in ("provider", "model", "config") if key in candidate})
    return tuple(found)


def _read(file: Path) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """Return the mapping in a YAML file, and the lines of its keys and of the roles."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = file.read_text(encoding="utf-8")
        data, node = yaml.load(text, loader), yaml.compose(text, loader)
    except (yaml.YAMLError, UnicodeError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        raise MatrixError(f"{file}:{mark.line + 1 if mark else 1}: malformed YAML: {error}") from error
    if not isinstance(data, dict):
        raise MatrixError(f"{file}:1: a matrix must be a mapping with 'roles'")
    lines: dict[tuple[str, ...], int] = {}
    for key, value in node.value:
        lines[(str(key.value),)] = key.start_mark.line + 1
        if key.value == "roles" and isinstance(value, yaml.MappingNode):
            lines |= {("roles", str(role.value)): role.start_mark.line + 1 for role, _ in value.value}
    return data, lines
