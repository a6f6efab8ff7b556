"""Make the relative paths of a file absolute while it is known which file names them, so that nothing moves them later.

`./x` and `../x` are looked for beside the declaring file, then at the root of its bundle: `./modules/tool-x` means the
same in `bundle.md` and in `behaviors/extra.yaml`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_core.plan import MODULE_SECTIONS, SESSION_MODULES
from amplifier_foundation.bundles.bundle import BundleError
from amplifier_foundation.documents import Document
from amplifier_foundation.merge import copied

#: The files that make a folder a bundle, the preferred one first.
BUNDLE_FILES: Final = ("bundle.md", "bundle.yaml")
Keys = tuple[str | int, ...]


def is_relative(text: str) -> bool:
    """Return whether a reference says by its first characters that it is relative to the file that has it."""
    return text in (".", "..") or text.startswith(("./", "../"))


def bundle_file_in(folder: Path) -> Path | None:
    """Return the bundle file of a folder, None when it has none."""
    return next((folder / name for name in BUNDLE_FILES if os.path.isfile(folder / name)), None)


def is_inside(path: Path, folder: Path) -> bool:
    """Return whether `path`, links followed, is `folder` or is inside of it."""
    return path.resolve().is_relative_to(folder.resolve())


def root_above(file: Path, limit: Path) -> Path | None:
    """Return the bundle file that `file` is nested under: the nearest other one upwards in `limit`, if there is one."""
    real = file.resolve()
    limit = limit.resolve()
    for folder in file.parents:
        # Only below a link can the folders above a file differ from those in the written path.
        if not (folder if real == file else folder.resolve()).is_relative_to(limit):
            return None
        found = bundle_file_in(folder)
        if found is not None and found != file:
            return found
    return None


def beside(folder: Path, relative: str) -> list[Path]:
    """Return where `relative` may be: as the system resolves it, and, below a linked folder, as it is written."""
    walked, written = (folder / relative).resolve(), Path(os.path.normpath(folder / relative))
    return [walked] if written.resolve() == walked else [walked, written]


def anchor_sources(
    part: Mapping[str, Any],
    declared_in: Document | Path,
    root: Path,
    *,
    at: Keys = (),
    on_missing: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Return a copy of `part`, a plan or an agent's definition, whose relative sources are absolute.

    `at` leads to the part in the document. A source that exists neither beside the file nor below `root` raises
    BundleError, which names both places; with `on_missing` the message is passed to it instead. A relative scenario of
    provider-mock is anchored too.
    """
    anchored: dict[str, Any] = copied(part)
    file = declared_in if isinstance(declared_in, Path) else declared_in.path
    for keys, entry in _written_entries(anchored):
        source, config = entry.get("source"), entry.get("config")
        if isinstance(source, str) and is_relative(source):
            path, fault = _find(file.parent, root, source)
            if fault:
                where = str(file) if isinstance(declared_in, Path) else declared_in.where(*at, *keys, "source")
                _tell(f"{where}: the source {source!r} of {entry.get('module')!r} {fault}", on_missing)
            entry["source"] = str(path)
        if entry.get("module") == "provider-mock" and isinstance(config, dict):
            scenario = config.get("scenario")
            if isinstance(scenario, str) and scenario and not os.path.isabs(scenario):
                config["scenario"] = str(_find(file.parent, root, scenario)[0])
    _anchor_short_form(anchored, file, root, declared_in, at, on_missing)
    return anchored


def _written_entries(part: Mapping[str, Any]) -> Iterator[tuple[Keys, dict[str, Any]]]:
    """Yield the entries that a file writes for modules, with the keys that lead to them, to be changed in place.

    `all_modules` yields the modules of a whole plan. A file may also write entries that name no module, only the `id`
    of one that another file names.
    """
    session = part.get("session")
    if isinstance(session, Mapping):
        for key in SESSION_MODULES:
            if isinstance(session.get(key), dict):
                yield ("session", key), session[key]
    for section in MODULE_SECTIONS:
        yield from _listed(part.get(section), (section,))
    spawn, agents = part.get("spawn"), part.get("agents")
    if isinstance(spawn, Mapping):
        yield from _listed(spawn.get("tools"), ("spawn", "tools"))
    if isinstance(agents, Mapping):
        for name, agent in agents.items():
            if isinstance(agent, Mapping):
                yield from ((("agents", name, *keys), entry) for keys, entry in _written_entries(agent))


def _listed(entries: Any, at: Keys) -> Iterator[tuple[Keys, dict[str, Any]]]:
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            yield (*at, index), entry


def _anchor_short_form(
    part: dict[str, Any],
    file: Path,
    root: Path,
    declared_in: Document | Path,
    at: Keys,
    on_missing: Callable[[str], None] | None,
) -> None:
    """Anchor `orchestrator_source` and `context_source`, which go with the string form of a session's modules."""
    session = part.get("session")
    for key in ("orchestrator_source", "context_source"):
        source = session.get(key) if isinstance(session, dict) else None
        if isinstance(session, dict) and isinstance(source, str) and is_relative(source):
            path, fault = _find(file.parent, root, source)
            if fault:
                where = str(file) if isinstance(declared_in, Path) else declared_in.where(*at, "session", key)
                _tell(f"{where}: {key} {source!r} {fault}", on_missing)
            session[key] = str(path)


def _find(folder: Path, root: Path, relative: str) -> tuple[Path, str]:
    """Return the path and no fault, or the place beside the file and what is wrong."""
    try:
        candidates = [*beside(folder, relative), *beside(root, relative)]
        for candidate in candidates:
            if candidate.exists():
                return candidate, ""
    except (OSError, RuntimeError, ValueError) as error:  # a link to itself, or a name that no file can have
        return folder / relative, f"cannot be looked for: {error}"
    tried = " nor ".join(str(candidate) for candidate in dict.fromkeys(candidates))
    return candidates[0], f"was not found: neither {tried} exists" if " nor " in tried else f"was not found: no {tried}"


def _tell(fault: str, on_missing: Callable[[str], None] | None) -> None:
    if on_missing is None:
        raise BundleError(f"{fault}: write a path relative to this file or to the root of its bundle")
    on_missing(fault)
