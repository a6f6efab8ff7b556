"""The files that decide, or become, what a session and git run: one table, for trust, the policy and the sandbox.

Trust hashes them, the policy asks for each write to one, the sandbox keeps them unchanged. None of the three has a
separate list, so a file missing here is missing for all. Files that only a running session knows (those of its bundles,
the code of its modules) come from the capability `session.control_files`.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator
from enum import Flag, auto
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from amplifier_kit.named_tuple import NamedTuple
from amplifier_kit.struct import FrozenStruct


class Use(Flag):
    """The users of a row of the table."""

    #: A change ends the trust in the project.
    TRUST = auto()
    #: Every write asks, whatever rules allow.
    POLICY = auto()
    #: It cannot be changed, replaced or moved by a command in the sandbox.
    SANDBOX = auto()
    ALL = TRUST | POLICY | SANDBOX


class StandIn(FrozenStruct):
    """A placeholder where a command must not create anything; `content` is None for an empty folder."""

    content: bytes | None = None


class ControlFile(FrozenStruct):
    """One row: a glob pattern relative to the project, to a folder of git or to the Amplifier home.

    A pattern that ends with `/**` means a folder with everything below it.
    """

    pattern: str
    uses: Use
    #: The sandbox puts it there while commands run if the path is missing; None leaves the place alone.
    stand_in: StandIn | None = None

    @property
    def path(self) -> str:
        """The pattern without a final `/**`: the path to mount in the sandbox."""
        return self.pattern.removesuffix("/**")

    @property
    def is_tree(self) -> bool:
        """Whether it means a folder with everything below it."""
        return self.pattern.endswith("/**")


_FOLDER: Final = StandIn()
_EMPTY: Final = StandIn(b"")
_COMMON: Final = "commondir"
_MODULES: Final = "modules"

#: Folders of `.amplifier` and `.claude` whose files are code, or are read as if they were configuration.
_OF_AMPLIFIER: Final = ("modules", "bundles", "agents", "commands", "modes", "skills", "hooks")
_OF_CLAUDE: Final = ("hooks", "commands", "agents", "skills")

IN_PROJECT: Final = (
    # As a whole in the sandbox; for the policy the folder itself, which an unknown tool may move or replace.
    ControlFile(".amplifier", Use.POLICY | Use.SANDBOX, _FOLDER),
    ControlFile(".amplifier/settings*", Use.POLICY),
    ControlFile(".amplifier/*.yaml", Use.TRUST),
    ControlFile(".amplifier/*.yml", Use.TRUST),
    ControlFile(".amplifier/mcp.json", Use.POLICY | Use.TRUST),
    *(ControlFile(f".amplifier/{name}/**", Use.POLICY | Use.TRUST) for name in _OF_AMPLIFIER),
    ControlFile(".claude", Use.POLICY | Use.SANDBOX, _FOLDER),
    ControlFile(".claude/settings*", Use.POLICY | Use.TRUST),
    *(ControlFile(f".claude/{name}/**", Use.POLICY | Use.TRUST) for name in _OF_CLAUDE),
    # Skills, in the place that agents of several makers share.
    ControlFile(".agents", Use.POLICY | Use.SANDBOX, _FOLDER),
    ControlFile(".agents/skills/**", Use.POLICY | Use.TRUST),
    # A folder as placeholder, not a file: git shows untracked files, but no empty folders.
    ControlFile(".mcp.json", Use.ALL, _FOLDER),
    # These need no placeholder: a bundle that a command makes runs only when a user names it.
    ControlFile("bundle.md", Use.ALL),
    ControlFile("bundle.yaml", Use.ALL),
    ControlFile("bundle.yml", Use.ALL),
    ControlFile("behaviors/*", Use.TRUST),
    # It chooses among the programs that git's config names; in the sandbox only one that does so is guarded.
    ControlFile("**/.gitattributes", Use.POLICY),
    ControlFile(".gitattributes", Use.SANDBOX),
)

#: Below a folder of git. Everything else there (index, objects, refs, logs, HEAD) is written by everyday commands.
IN_GIT: Final = (
    ControlFile("hooks/**", Use.POLICY | Use.SANDBOX, _FOLDER),
    ControlFile("config", Use.POLICY | Use.SANDBOX, _EMPTY),
    ControlFile("config.worktree", Use.POLICY | Use.SANDBOX, _EMPTY),
    # Leads git to the config and the hooks of another folder. The placeholder leads to its own folder.
    ControlFile(_COMMON, Use.POLICY | Use.SANDBOX, StandIn(b".\n")),
    ControlFile("info/attributes", Use.POLICY | Use.SANDBOX, _EMPTY),
    ControlFile("objects/info/alternates", Use.POLICY | Use.SANDBOX, _EMPTY),
    # Where `git fetch` and `git push` go, in the format before git had a config.
    ControlFile("remotes/**", Use.POLICY | Use.SANDBOX, _FOLDER),
    ControlFile("branches/**", Use.POLICY | Use.SANDBOX, _FOLDER),
    # As a whole, so that no submodule can be made; existing ones can be written in, but for these rows.
    ControlFile(_MODULES, Use.SANDBOX, _FOLDER),
)
#: The files that git reads in the folder of a worktree; the rest it takes from the repository.
_OF_WORKTREE: Final = ("config.worktree", _COMMON, _MODULES)
#: By these a folder of git is known: they stay where they are.
_PINNED: Final = ("objects", "refs")
#: Where a folder of git may contain others.
_NESTED: Final = ("", "modules/**/", "worktrees/*/")

#: Below the Amplifier home, of which nothing has to be trusted first. The records of sessions hold the answers to
#: pending calls. In the sandbox the home is not there at all.
IN_HOME: Final = (
    *(ControlFile(name, Use.POLICY) for name in ("settings*", "keys.env", "registry.json", "mcp.json")),
    *(
        ControlFile(f"{name}/**", Use.POLICY)
        for name in (
            "agents", "bundles", "cache", "commands", "hooks", "locks", "modes", "modules", "projects", "routing",
            "skills",
        )
    ),
)  # fmt: skip

#: How deep submodules of submodules, and the parts of their names, are followed; deeper ones are read-only.
_DEPTH: Final = 8
#: How many submodules are guarded in full: every mount makes each command slower, and many of them much slower. In
#: further ones, missing files may be created unless git runs code from them at once.
_MANY: Final = 16
_RUN_FROM: Final = ("hooks", "config", _COMMON)
#: Drivers that git has by itself: naming one of them runs no program.
_BUILT_IN: Final = frozenset({
    "ada", "bash", "bibtex", "cpp", "csharp", "css", "dts", "elixir", "fortran", "fountain", "golang", "html", "ini",
    "java", "kotlin", "markdown", "matlab", "objc", "pascal", "perl", "php", "python", "r", "ruby", "rust", "scheme",
    "tex", "text", "binary", "union",
})  # fmt: skip
_REFTABLE: Final = rb"(?im)^\s*\[extensions\][^\[]*?\brefstorage\s*=\s*\"?reftable"
_HOOKS_PATH: Final = rb"(?im)^[^\n#;]*?\bhooksPath[ \t]*=[ \t]*([^\n\0#;]*[^\s\0#;])"
_DRIVER: Final = rb"(?m)(?:^|\s)(?:filter|diff|merge)=([^\s]+)"


class GuardedPath(NamedTuple):
    """A path that a command in the sandbox must not change, and its placeholder if it is missing."""

    path: str
    stand_in: StandIn | None
    #: The folder of git that it belongs to; empty for a file of the project.
    git: str = ""
    #: It is only kept in its place: its content can be written, even if everything around it cannot.
    is_open: bool = False
    #: It can have no placeholder: when a command has made it, it is removed.
    is_unwanted: bool = False


def project_rows(use: Use) -> tuple[ControlFile, ...]:
    """Return the rows of a project that are for a use."""
    return tuple(row for row in IN_PROJECT if use in row.uses)


def git_patterns() -> tuple[str, ...]:
    """Return the patterns that the policy asks for below a folder of git, its submodules and worktrees included."""
    return tuple(f"{nested}{row.pattern}" for nested in _NESTED for row in IN_GIT if Use.POLICY in row.uses)


def is_git_folder(folder: str) -> bool:
    """Return whether a folder is one of git itself, as of a bare repository.

    A folder recognized by its subfolders stays recognized: in the sandbox these cannot be moved.
    """
    has_objects, has_refs = (os.path.isdir(os.path.join(folder, name)) for name in _PINNED)
    has_common = os.path.isfile(os.path.join(folder, _COMMON))
    return (has_objects and has_refs) or (os.path.lexists(os.path.join(folder, "HEAD")) and (has_objects or has_common))


def git_folders_of(project: str) -> tuple[str, ...]:
    """Return the folders of git that the work in a project depends on, wherever they lie.

    For a worktree or a submodule that is the folder which its file `.git` names, and the repository's own; for a folder
    in a repository that of the repository.
    """
    folder = os.path.realpath(project)
    while True:
        git, named = _linked_git(folder)
        if is_git_folder(git) or named:
            break
        if is_git_folder(folder):
            git = folder
            break
        if folder == os.path.dirname(folder):
            return ()
        folder = os.path.dirname(folder)
    common = _first_line(os.path.join(git, _COMMON))
    return tuple(dict.fromkeys((git, os.path.realpath(os.path.join(git, common)))) if common else (git,))


def hooks_folders(project: str) -> list[str]:
    """Return the folders that `core.hooksPath` names for the repository around a project.

    The configuration of the repository and of the user counts, without the files that they include.
    """
    settings = (os.environ.get("XDG_CONFIG_HOME") or "~/.config") + "/git/config"
    configs = [*(os.path.join(git, "config") for git in git_folders_of(project)), "~/.gitconfig", settings]
    named = [found for path in configs for found in re.findall(_HOOKS_PATH, _content(os.path.expanduser(path)))]
    root = os.path.realpath(project)
    while named and not os.path.lexists(os.path.join(root, ".git")) and root != os.path.dirname(root):
        root = os.path.dirname(root)
    names = (os.path.expanduser(os.fsdecode(name.strip(b'"'))) for name in named)
    return [os.path.normpath(os.path.join(root, name)) for name in names]


def guarded_in(folder: str) -> Iterator[GuardedPath]:
    """Yield the paths below a writable folder that must not change, whether they exist or not."""
    for row in project_rows(Use.SANDBOX):
        path = os.path.join(folder, row.path)
        if row.path != ".gitattributes" or names_driver(path):
            yield GuardedPath(path, row.stand_in)
    if is_git_folder(folder):  # a command can make a project look like one, so this is added to the above
        yield from (GuardedPath(os.path.join(folder, name), None, folder, is_open=True) for name in _PINNED)
        yield from _guarded_in_git(folder)
    git = os.path.join(folder, ".git")
    if os.path.isdir(git) and not os.path.islink(git):
        yield from _guarded_in_git(git)
    elif os.path.lexists(git):
        yield GuardedPath(git, None)
        # The target of the link or of the file; the sandbox guards it if that is in the folder.
        target, _ = _linked_git(folder)
        common = _first_line(os.path.join(target, _COMMON))
        for each in dict.fromkeys((target, os.path.realpath(os.path.join(target, common)))):
            yield from _guarded_in_git(each) if os.path.isdir(each) and each != folder else ()


def names_driver(attributes: str) -> bool:
    """Return whether a file of attributes names a filter, or a driver for diffs or merges, that is not built in."""
    named = re.findall(_DRIVER, _content(attributes))
    return any(name.decode("utf-8", "replace") not in _BUILT_IN for name in named)


def has_reftable(git: str) -> bool:
    """Return whether a repository keeps its references in the newer format, which allows no placeholder `commondir`.

    git takes such a repository for a worktree of itself, and locks the one table of references twice. Only the config
    is evidence: commands can make folders.
    """
    return re.search(_REFTABLE, _content(os.path.join(git, "config"))) is not None


def _guarded_in_git(git: str) -> Iterator[GuardedPath]:
    repositories, worktrees = [git], []
    for number, folder in enumerate(repositories):  # which grows as it goes
        below = _folders(os.path.join(folder, "worktrees"))
        for each in (folder, *below):
            repositories += _submodules(os.path.join(each, _MODULES), _DEPTH - each[len(git) :].count(f"/{_MODULES}/"))
        worktrees += below
        if number:
            yield GuardedPath(folder, None, folder, is_open=True)
        is_odd = has_reftable(folder)
        for row in IN_GIT:
            path = os.path.join(folder, row.path)
            is_needed = number <= _MANY or row.path in _RUN_FROM or os.path.lexists(path)
            if Use.SANDBOX in row.uses and is_needed:
                is_unwanted = row.path == _COMMON and is_odd
                yield GuardedPath(path, None if is_unwanted else row.stand_in, folder, is_unwanted=is_unwanted)
    for folder in worktrees:
        for row in IN_GIT:
            if row.path in _OF_WORKTREE:
                # A worktree without a `commondir` is broken: one that leads to itself would make it a repository.
                stand_in = row.stand_in if row.path != _COMMON else None
                yield GuardedPath(os.path.join(folder, row.path), stand_in, folder)


def _submodules(folder: str, depth: int) -> Iterator[str]:
    """Yield the folders of git below a folder of submodules, whose names may have slashes.

    Any part of a repository is enough, as a command may have taken it apart: unrecognized folders are read-only.
    """
    for path in _folders(folder) if depth > 0 else ():
        files = (os.path.join(path, name) for name in ("HEAD", "config", _COMMON))
        if is_git_folder(path) or any(os.path.lexists(file) and not os.path.isdir(file) for file in files):
            yield path
        else:
            yield from _submodules(path, depth - 1)


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def _linked_git(folder: str) -> tuple[str, str]:
    """Return the folder of git that `.git` in a folder is, links to or names, and the name in it, if any."""
    named = _first_line(os.path.join(folder, ".git")).removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(folder, named or ".git")), named


def _first_line(path: str) -> str:
    line = _content(path, 4_096).split(b"\n", 1)[0]
    return os.fsdecode(line.strip().replace(b"\0", b""))


def _content(path: str, limit: int = 1_000_000) -> bytes:
    """Return the beginning of a file; empty if it is missing, or not a regular file such as a pipe."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(limit) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


# --- paths that no module writes ---

_IN_EVERY_FOLDER: Final = "**/"


def refuse_control_file(path: Path, coordinator: Any) -> None:
    """Raise PermissionError, which names the file, when a path is or leads to a control file of the session's project.

    A path in a module's config may lead to one. Tools ask before they write; a module that writes a transcript, a
    recording or a log does not, so it refuses. To be called right before the file is opened: a link may have been made
    since the last time.
    """
    project = coordinator.get_capability("session.working_dir") or os.getcwd()
    if is_control_file(path, project, coordinator.get_capability("session.control_files") or ()):
        message = "it decides what sessions or git run, so no module writes it"
        raise PermissionError(errno.EACCES, message, str(path))


def is_control_file(path: str | Path, project: str | Path, more: Iterable[str | Path] = ()) -> bool:
    """Return whether a path is, or leads over links to, a control file of a project.

    That is every row of the table, in the project and in the folders below it, everything in a folder of git, and the
    files and folders in `more`.
    """
    here = os.path.realpath(project)
    others = [os.path.realpath(each) for each in (*git_folders_of(here), *more)]
    for each in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
        if any(_is_below(each, other) for other in others):
            return True
        for root in dict.fromkeys((here, os.path.abspath(project))):
            if _is_below(each, root) and _is_in_table(root, os.path.relpath(each, root)):
                return True
    return False


def _is_in_table(root: str, relative: str) -> bool:
    # Where upper and lower case are the same, `.GIT` is the folder of git.
    parts = relative.casefold().split("/")
    if ".git" in parts or any(_matches(row, parts) for row in IN_PROJECT):
        return True
    folders = relative.split("/")[:-1]
    return any(is_git_folder(os.path.join(root, *folders[:depth])) for depth in range(len(folders) + 1))


def _matches(row: ControlFile, parts: list[str]) -> bool:
    """Return whether a row means a path; a pattern with a leading dot counts in every folder, as in nested projects."""
    wanted = row.path.removeprefix(_IN_EVERY_FOLDER).casefold().split("/")
    is_anywhere = row.pattern.startswith((".", _IN_EVERY_FOLDER))
    for start in range(len(parts) if is_anywhere else 1):
        found = parts[start:]
        is_long_enough = len(found) >= len(wanted) if row.is_tree else len(found) == len(wanted)
        if is_long_enough and all(map(fnmatchcase, found, wanted)):
            return True
    return False


def _is_below(path: str, above: str) -> bool:
    return path == above or path.startswith(above.rstrip("/") + "/")
