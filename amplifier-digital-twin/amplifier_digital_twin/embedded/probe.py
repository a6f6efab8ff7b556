"""What this machine allows a universe of namespaces: tried out, not guessed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from amplifier_digital_twin.backends.twin import Probe
from amplifier_digital_twin.completion import completed
from amplifier_digital_twin.embedded import call_filter
from amplifier_digital_twin.embedded.bubblewrap import REMEDY
from amplifier_digital_twin.embedded.chores import remove_trees
from amplifier_digital_twin.embedded.control_groups import hierarchies
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.layers import make_empty
from amplifier_digital_twin.embedded.passage import memory_file
from amplifier_digital_twin.embedded.probe_facts import probe_facts
from amplifier_digital_twin.embedded.staged import Overlay, Stage, Staged
from amplifier_digital_twin.embedded.tree import overlay_options
from amplifier_digital_twin.remembered import Remembered

_OLDEST: Final = (0, 8)
_TIMEOUT: Final = 20.0
#: What is remembered of a probe that found nothing missing.
_EVERYTHING: Final = "everything can be had"


async def probe_embedded(remembered: Remembered | None = None) -> Probe:
    """Try everything out and say what can be had; never raises.

    That everything can be had is remembered as long as nothing changes that decides it; anything less never is.
    """
    try:
        return await _probe(remembered)
    except Exception as error:
        return Probe(False, f"the probe failed: {error}", {})


async def _probe(remembered: Remembered | None) -> Probe:
    if sys.platform != "linux":
        return Probe(False, f"namespaces are Linux's, this is {sys.platform}", {})
    program = shutil.which("bwrap")
    if program is None:
        return Probe(False, f"bubblewrap (bwrap) is not installed: {REMEDY}", {})
    ids = IdMap.of_this_user()
    features = {"root": "yes" if ids.has_root else ids.reason_without_root, "cgroups": cgroups_reason()}
    whole = {**features, "userns": "yes", "seccomp": "yes", "overlay": "yes"}
    facts = probe_facts(program)
    if remembered is not None and not call_filter.missing_reason() and remembered.get(*facts) == _EVERYTHING:
        return Probe(True, "", whole)
    # All at once: every launch waits for this.
    too_old, walls, calls, overlay = await asyncio.gather(
        _too_old(program),
        walls_reason(program, ids),
        filter_reason(program, ids),
        overlay_reason(Path(tempfile.gettempdir()), ids),
    )
    if too_old:
        return Probe(False, f"{too_old}: {REMEDY}", {})
    if walls:
        return Probe(False, f"no universe can be made: {walls}", {"userns": walls, **features})
    if remembered is not None and not calls and not overlay:
        remembered.put(_EVERYTHING, *facts)
    return Probe(True, "", {**whole, "seccomp": calls or "yes", "overlay": overlay or "yes"})


async def _too_old(program: str) -> str:
    process = await asyncio.to_thread(
        subprocess.run, [program, "--version"], capture_output=True, timeout=_TIMEOUT, check=False
    )
    words = process.stdout.decode("utf-8", "replace").strip()
    found = re.search(r"(\d+)\.(\d+)", words)
    if not found:
        return f"bubblewrap does not say which version it is: {words!r}"
    return "" if (int(found[1]), int(found[2])) >= _OLDEST else f"{words} is too old"


def cgroups_reason() -> str:
    """Say `yes`, or which limits are not the kernel's own for all processes together."""
    have = {name for hierarchy in hierarchies() for name in hierarchy.controllers}
    if missing := sorted({"pids", "memory", "cpu"} - have):
        return f"no control group can be made for {', '.join(missing)}: each process is limited, all are watched"
    return "yes"


async def walls_reason(program: str, ids: IdMap) -> str:
    """Put up all the walls of a universe around nothing; return why that cannot be done, or nothing."""
    return await _fails(Stage(ids=ids, forbids_user_namespaces=ids.has_root), _walls(program, ids, []))


async def filter_reason(program: str, ids: IdMap) -> str:
    """Put up the walls with the filter for calls; return why that cannot be done, or nothing."""
    if reason := call_filter.missing_reason():
        return reason
    calls = memory_file("calls", call_filter.filter_program())
    try:
        words = _walls(program, ids, ["--seccomp", str(calls)])
        return await _fails(Stage(ids=ids, forbids_user_namespaces=ids.has_root), words, [calls])
    finally:
        os.close(calls)


def _walls(program: str, ids: IdMap, more: list[str]) -> list[str]:
    words = [program, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    words += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    if not ids.has_root:
        words += ["--unshare-user", "--uid", "1000", "--gid", "1000", "--disable-userns"]
    return [*words, "--die-with-parent", "--new-session", *more, "--", "/bin/sh", "-c", ":"]


async def overlay_reason(folder: Path, ids: IdMap) -> str:
    """Mount an overlay whose layers lie in that folder's file system; return why that cannot be done, or nothing."""
    # Not in a thread: it would go on when this is cancelled, and leave the folder.
    place = Path(tempfile.mkdtemp(prefix=".overlay-", dir=folder))
    try:
        for name in ("lower", "upper", "work"):
            make_empty(place / name, ids)
        overlay = Overlay([place / "lower"], place / "upper", place / "work", overlay_options(ids))
        return await _fails(Stage(ids=ids, overlay=overlay), ["/bin/sh", "-c", ": > /tmp/root/file"])
    finally:
        await completed(remove_trees([place], ids))


async def _fails(stage: Stage, argv: list[str], keep: Sequence[int] = ()) -> str:
    """Run a program on a stage; return what it said when it failed, or nothing."""
    process = Staged.begun(stage, argv, keep=keep)
    try:
        async with asyncio.timeout(_TIMEOUT):
            code = await process.wait()
        return "" if code == 0 else process.words() or f"it ended with code {code}"
    except TimeoutError:
        return f"it took longer than {_TIMEOUT:g} s"
    finally:
        await completed(process.close())
