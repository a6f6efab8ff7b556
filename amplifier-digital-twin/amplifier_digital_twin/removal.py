"""The removal of a tree of any depth: Python's own calls itself once for every folder, and so ends in the middle."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_ENVIRONMENT: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
#: How much of what a program says is told on.
_MAX_WORDS: Final = 500


def remove_tree(path: Path) -> None:
    """Remove a file, a link or a folder with all in it, but nothing that is mounted there; what is gone is fine.

    Links are not followed. Raises OSError with what stays.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    _run(["rm", "-rf", "--one-file-system", "--", str(path.absolute())], path)


def open_folders(path: Path) -> None:
    """Let the owner into every folder of a tree: overlays, and whoever lived in one, leave some closed to him.

    Only folders: files may be shared with other trees. Raises OSError.
    """
    # Each in the folder above it: the whole path of a deep one is longer than the kernel takes.
    words = ["find", str(path.absolute()), "-xdev", "-type", "d", "!", "-perm", "-u=rwx"]
    _run([*words, "-execdir", "chmod", "u+rwx", "--", "{}", ";"], path)


def _run(command: Sequence[str], path: Path) -> None:
    done = subprocess.run(
        command, env=_ENVIRONMENT, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip()[-_MAX_WORDS:]
        raise OSError(words or f"{command[0]} {path} ended with code {done.returncode}")
