"""Say in which folders skills are looked for, and in which order."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from amplifier_kit.awaitable import maybe_await
from amplifier_kit.config import read_config
from amplifier_kit.struct import FrozenStruct, Struct
from amplifier_module_tool_skills.config import PlanSkills, SkillsConfig

ENVIRONMENT: Final = "AMPLIFIER_SKILLS_DIR"
#: Where a project keeps skills: ours, the common place, and that of another agent.
PROJECT_FOLDERS: Final = (".amplifier/skills", ".agents/skills", ".claude/skills")
#: Who may bring skills from elsewhere: `capability(uri)` returns a folder or None, at once or later.
SOURCES: Final = "skills.resolve_source"
_REMOTE: Final = ("git+", "http://", "https://", "zip+", "ssh://")


class Root(FrozenStruct):
    """One folder to look in."""

    path: Path
    #: Whether it belongs to the project: its links must not lead out of that.
    is_project: bool = False


class Roots(Struct):
    """The folders, first come first served, and what could not be found."""

    project: Path
    folders: list[Root] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def add(self, path: Path, *, is_users: bool = False) -> None:
        """Append a folder, once; the user's own are theirs even when they work in their home folder."""
        absolute = Path(os.path.abspath(path))
        if all(root.path != absolute for root in self.folders):
            self.folders.append(Root(absolute, not is_users and absolute.is_relative_to(self.project)))

    def within(self, root: Root) -> list[Path] | None:
        """Return the folders in which the files of a root must lie, None when they may lie anywhere."""
        if not root.is_project:
            return None
        others = [other.path for other in self.folders if not other.is_project]
        return [Path(os.path.realpath(path)) for path in (self.project, *others)]


async def find_roots(coordinator: Any, settings: SkillsConfig, environ: Mapping[str, str] = os.environ) -> Roots:
    """Return where to look: what the config says, else the plan, else the default folders; then further sources."""
    roots = Roots(_working_dir(coordinator, settings))
    named = settings.skills_dirs
    if named is None:
        named = _of_plan(getattr(coordinator, "config", None), roots)
    if named is None:
        _add_defaults(roots, coordinator, environ)
    for source in (*(named or ()), *settings.skills):
        await _add(roots, coordinator, source)
    return roots


def _working_dir(coordinator: Any, settings: SkillsConfig) -> Path:
    known = settings.working_dir or coordinator.get_capability("session.working_dir")
    return Path(os.path.abspath(os.path.expanduser(str(known) if known else ".")))


def _of_plan(plan: Any, roots: Roots) -> tuple[str, ...] | None:
    """Return `skills.dirs` of the mount plan, None when it has none; what makes no sense there is a problem."""
    section = plan.get("skills") if isinstance(plan, Mapping) else None
    dirs = section.get("dirs") if isinstance(section, Mapping) else None
    if not dirs:
        return None
    try:
        return read_config(PlanSkills, {"dirs": dirs}, module="skills of the plan").dirs
    except ValueError as error:
        roots.problems.append(str(error))
        return None


def _add_defaults(roots: Roots, coordinator: Any, environ: Mapping[str, str]) -> None:
    for folder in environ.get(ENVIRONMENT, "").split(os.pathsep):
        if folder.strip():
            roots.add(roots.project / os.path.expanduser(folder), is_users=True)
    for name in PROJECT_FOLDERS:
        roots.add(roots.project / name)
    home = coordinator.get_capability("amplifier.home") or environ.get("AMPLIFIER_HOME") or "~/.amplifier"
    roots.add(Path(os.path.expanduser(str(home))) / "skills", is_users=True)
    roots.add(Path(os.path.expanduser("~/.agents/skills")), is_users=True)


async def _add(roots: Roots, coordinator: Any, source: str) -> None:
    """Append the folder that a source names; what leads nowhere is a problem, and the others are not hidden by it."""
    if source.startswith(_REMOTE):
        path = await _fetched(coordinator, source)
        why = f"cannot fetch skills: no module or app provides the capability {SOURCES!r}"
    elif source.startswith("@"):
        resolver = coordinator.get_capability("mention_resolver")
        path = await maybe_await(resolver.resolve(source)) if resolver is not None else None
        why = "it does not lead to a folder" if resolver is not None else "the capability 'mention_resolver' is missing"
    else:
        path, why = _local(roots.project, source), ""
    if path is None:
        roots.problems.append(f"skills of {source} are missing: {why}")
    else:
        roots.add(Path(path))


def _local(project: Path, source: str) -> Path:
    return project / os.path.expanduser(source.removeprefix("file://"))


async def _fetched(coordinator: Any, source: str) -> Any:
    resolve = coordinator.get_capability(SOURCES)
    return None if resolve is None else await maybe_await(resolve(source))
