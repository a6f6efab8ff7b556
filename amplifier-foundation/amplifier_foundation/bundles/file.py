"""Read one bundle file: YAML, or Markdown whose front matter is the YAML and whose body is the system instruction."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOP_LEVEL_KEYS = (
    "bundle",
    "includes",
    "session",
    "providers",
    "tools",
    "hooks",
    "agents",
    "context",
    "spawn",
    "orchestrator",
)
_MODULE_LISTS = ("providers", "tools", "hooks")
_FENCE = "---"


class BundleError(Exception):
    """A bundle file cannot be used; the text says which, where, why and what to do."""


@dataclass(frozen=True)
class Bundle:
    """One bundle file, parsed: a name, the mount plan it asks for, and the instruction in its body."""

    path: Path
    name: str
    plan: dict[str, Any] = field(default_factory=dict)
    instruction: str = ""


def load_bundle_file(path: Path) -> Bundle:
    """Return the bundle in `path`, a file or a folder with a bundle.md or bundle.yaml.

    Raises BundleError, naming file and line, for a missing file, another suffix, malformed YAML, unknown keys, module
    lists that are none, and for includes, which a single file cannot resolve.
    """
    try:
        file = _bundle_file(path)
    except OSError as error:
        raise BundleError(f"{path}: cannot look for the bundle: {error.strerror or error}") from error
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BundleError(f"{file}: cannot read the bundle: {error}") from error
    front, body, first_line = _split(file, text)
    mapping = _parse(file, front, first_line)
    _check(file, mapping)
    plan = {
        key: mapping[key] for key in ("session", *_MODULE_LISTS, "agents", "spawn", "orchestrator") if mapping.get(key)
    }
    _anchor_sources(plan, file.parent)
    described = mapping.get("bundle") or {}
    name = described.get("name") if isinstance(described, dict) else None
    return Bundle(file, str(name or file.stem), plan, body.strip())


def _bundle_file(path: Path) -> Path:
    if path.is_dir():
        for name in ("bundle.md", "bundle.yaml"):
            if (path / name).is_file():
                return path / name
        raise BundleError(f"{path}: no bundle.md or bundle.yaml in this folder")
    if not path.is_file():
        raise BundleError(f"{path}: there is no such bundle file")
    if path.suffix not in (".md", ".yaml", ".yml"):
        raise BundleError(f"{path}: a bundle is a .md or .yaml file, not {path.suffix or 'one without a suffix'}")
    return path


def _split(file: Path, text: str) -> tuple[str, str, int]:
    """Return front matter, body, and the line the front matter starts at."""
    if file.suffix != ".md":
        return text, "", 1
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return "", text, 1
    for index, line in enumerate(lines[1:], start=1):
        if line.strip() == _FENCE:
            return "".join(lines[1:index]), "".join(lines[index + 1 :]), 2
    raise BundleError(f"{file}:1: the front matter opened by '---' is never closed: add a line '---' after it")


def _parse(file: Path, front: str, first_line: int) -> dict[str, Any]:
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        parsed = yaml.load(front, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise BundleError(f"{file}:{line}: malformed YAML: {problem}") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise BundleError(f"{file}:{first_line}: a bundle is a mapping of keys, got {type(parsed).__name__}")
    return parsed


def _check(file: Path, mapping: dict[str, Any]) -> None:
    for key in mapping:
        if key not in TOP_LEVEL_KEYS:
            import difflib

            near = difflib.get_close_matches(str(key), TOP_LEVEL_KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(TOP_LEVEL_KEYS)}"
            raise BundleError(f"{file}: unknown key {key!r}: {hint}")
    if mapping.get("includes"):
        raise BundleError(f"{file}: 'includes' cannot be resolved yet: name the modules in this file itself")
    if not isinstance(mapping.get("session") or {}, dict):
        raise BundleError(f"{file}: 'session' must be a mapping, got {type(mapping['session']).__name__}")
    for section in _MODULE_LISTS:
        entries = mapping.get(section) or []
        if not isinstance(entries, list):
            raise BundleError(f"{file}: '{section}' must be a list of modules, got {type(entries).__name__}")
        for index, entry in enumerate(entries):
            if not isinstance(entry, dict) or not entry.get("module"):
                raise BundleError(f"{file}: {section}[{index}] must be a mapping with a 'module', got {entry!r}")


def _anchor_sources(plan: dict[str, Any], base: Path) -> None:
    """Make relative sources absolute against the file that names them, so that nothing later can move them."""
    session = plan.get("session") or {}
    entries = [entry for section in _MODULE_LISTS for entry in plan.get(section, [])]
    entries += [entry for entry in session.values() if isinstance(entry, dict)]
    for entry in entries:
        source = entry.get("source")
        if isinstance(source, str) and source.startswith(("./", "../")):
            entry["source"] = str((base / source).resolve())
        config = entry.get("config")
        if isinstance(config, dict) and isinstance(config.get("scenario"), str):
            config["scenario"] = str((base / config["scenario"]).resolve())
