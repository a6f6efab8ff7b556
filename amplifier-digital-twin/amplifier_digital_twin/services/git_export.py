"""What a repository of the host shows of itself: a bare repository that borrows its objects and has refs of its own."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.git_command import quoted
from amplifier_digital_twin.services.git_source import GitSource, Head
from amplifier_digital_twin.services.object_store import ObjectStore
from amplifier_digital_twin.services.working_tree import WorkingTree
from amplifier_digital_twin.value import Value

WORKTREE: Final = "worktree"
#: The branch that means what the profile serves, whatever it is called at home: the name that people ask for.
MAIN: Final = "refs/heads/main"
#: When a repository has no commit, its first one is dated so.
_EPOCH: Final = 946684800
_WHO: Final = "Digital Twin <twin@localhost>"
#: Only what refs lead to can be asked for: the source may hold work that the profile does not name. Answers are large
#: rather than slow: they go no further than this machine.
_CONFIG: Final = """[core]
\trepositoryformatversion = {version}
\tbare = true
\thooksPath = /dev/null
[extensions]{extensions}
[uploadpack]
\tallowReachableSHA1InWant = true
\tallowFilter = false
[pack]
\twindow = 0
[gc]
\tauto = 0
"""


class Exported(Value):
    """A bare repository, and what its refs (and HEAD) lead to."""

    folder: Path
    commits: Mapping[str, str]
    notes: tuple[str, ...] = ()


def export(path: Path, ref: str, folder: Path) -> Exported:
    """Make the bare repository `folder`, new, from the repository at `path`, which is only read.

    `worktree`: all branches and tags; HEAD, the branch that is checked out and `main` are the working tree as it is:
    the commit that is checked out when nothing was changed, else one on top of it whose id depends on nothing but
    content. Any other ref: that one alone, HEAD and `main` meaning it too. Raises TwinError.
    """
    source = GitSource.at(path)
    _skeleton(source, folder)
    notes: list[str] = []
    if ref == WORKTREE:
        head, refs = _working_tree(source, folder, notes)
    else:
        head, refs = _single(source, ref)
    _write_refs(folder, head, refs)
    shallow = source.common_dir / "shallow"
    if shallow.is_file():
        shutil.copyfile(shallow, folder / "shallow")
    borrowed = folder / "objects" / "info" / "alternates"
    borrowed.parent.mkdir()
    borrowed.write_bytes(f"{quoted(source.common_dir / 'objects')}\n".encode("utf-8", "surrogateescape"))
    commits = {name: commit for name, (_, commit) in refs.items()}
    return Exported(folder, {"HEAD": commits[head], **commits}, tuple(notes))


def _skeleton(source: GitSource, folder: Path) -> None:
    """Write an empty bare repository; git's own templates would bring hooks along."""
    (folder / "objects" / "pack").mkdir(parents=True)
    (folder / "refs").mkdir()
    is_old = source.object_format == "sha1"
    extensions = "" if is_old else f"\n\tobjectFormat = {source.object_format}"
    config = _CONFIG.format(version=0 if is_old else 1, extensions=extensions)
    (folder / "config").write_text(config, encoding="utf-8")
    (folder / "HEAD").write_text(f"ref: {MAIN}\n", encoding="utf-8")


def _working_tree(source: GitSource, folder: Path, notes: list[str]) -> tuple[str, dict[str, tuple[str, str]]]:
    if source.is_bare:
        raise TwinError(
            "repository_invalid", f"{source.path} has no working tree", "name a branch, tag or commit as its `ref`"
        )
    objects = ObjectStore(folder, source.object_format)
    with ThreadPoolExecutor(2) as beside:
        # What git takes to answer is mostly its start: everything that does not need another answer is asked at once.
        named = beside.submit(lambda: (source.branch(), source.refs()))
        before = beside.submit(lambda: _head(source))
        tree = WorkingTree(source, folder, objects, notes).write(lambda: before.result()[1])
        parent = before.result()[0]
        branch, refs = named.result()
    commit = _commit(objects, tree, parent)
    head = branch or MAIN
    refs[head] = (commit, commit)
    if any(name.startswith(f"{MAIN}/") for name in refs):
        notes.append(f"{source.path}: has branches below `main/`, so there is no `main` beside them")
    else:
        refs[MAIN] = (commit, commit)
    return head, refs


def _head(source: GitSource) -> tuple[Head | None, frozenset[str]]:
    """Return the commit that is checked out, and the names of all its trees."""
    head = source.head()
    return head, frozenset() if head is None else source.trees(head.commit) | {head.tree}


def _single(source: GitSource, ref: str) -> tuple[str, dict[str, tuple[str, str]]]:
    name, own, commit = source.resolve(ref)
    refs = {MAIN: (commit, commit)}
    if name and not name.startswith(f"{MAIN}/"):
        refs[name] = (own, commit)
    elif name:
        refs = {name: (own, commit)}
    return (name if name.startswith("refs/heads/") else MAIN), refs


def _commit(objects: ObjectStore, tree: str, parent: Head | None) -> str:
    """Return a commit of the tree: the parent when it has that tree, else a new one that only content decides."""
    if parent is not None and parent.tree == tree:
        return parent.commit
    # Younger than its parent, as git expects of every commit.
    date = parent.date + 1 if parent is not None else _EPOCH
    lines = [f"tree {tree}", *([f"parent {parent.commit}"] if parent is not None else [])]
    lines += [f"author {_WHO} {date} +0000", f"committer {_WHO} {date} +0000", "", "The working tree as it is", ""]
    return objects.write("commit", "\n".join(lines).encode())


def _write_refs(folder: Path, head: str, refs: Mapping[str, tuple[str, str]]) -> None:
    lines = ["# pack-refs with: peeled fully-peeled sorted "]
    for name in sorted(refs, key=lambda name: name.encode("utf-8", "surrogateescape")):
        own, commit = refs[name]
        lines.append(f"{own} {name}")
        if own != commit:
            lines.append(f"^{commit}")
    text = "\n".join([*lines, ""])
    (folder / "packed-refs").write_bytes(text.encode("utf-8", "surrogateescape"))
    (folder / "HEAD").write_bytes(f"ref: {head}\n".encode("utf-8", "surrogateescape"))
