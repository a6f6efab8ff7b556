"""Our own programs that inspect a project run in a sandbox without anything writable."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

from amplifier_kit.guard.sandbox.sandbox import Sandbox

MakeBox = Callable[..., Sandbox]


def test_nothing_can_be_written_and_nobody_reached(bubblewrap: None, make_box: MakeBox, project: Path) -> None:
    """Whatever the settings open: the project and other folders are shown, not writable, and there is no network."""
    beside = project.parent / "beside"
    beside.mkdir()
    (project / "file").write_text("text", encoding="utf-8")
    before = sorted(path.name for path in project.iterdir())
    box = make_box(network=True, writable=[str(beside)])
    setup = box.prepare(str(project), {"PATH": "/usr/bin:/bin", "HOME": "/"}, is_read_only=True)
    script = f"cat file; touch made; touch {beside}/made; mkdir .amplifier; wc -l < /proc/net/dev"
    command = [*setup.argv[:-1], "--chdir", str(project), "--", "/bin/sh", "-c", script]
    done = subprocess.run(command, env=setup.environment, capture_output=True, text=True, check=False)
    assert done.stdout == "text3\n", done
    assert sorted(path.name for path in project.iterdir()) == before, "no placeholders are needed either"
    assert not (beside / "made").exists()
