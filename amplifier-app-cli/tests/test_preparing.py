"""Preparing a session: settings are loaded once, and a signal stops the program while it fetches."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

#: A `git` that says it was started, and whose id, and then waits.
GIT = '#!/bin/sh\necho $$ > "$STARTED.tmp"\nmv "$STARTED.tmp" "$STARTED"\nexec sleep 600\n'
BUNDLE = """\
bundle: {name: slow}
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}
providers: [{module: provider-mock}]
tools: [{module: tool-slow, source: 'git+https://host.invalid/slow@main'}]
"""


@pytest.mark.parametrize("form", ["text", "stream-json"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_while_fetching(
    start: Callable[..., subprocess.Popen[str]],
    wait_until: Callable[..., None],
    project: Path,
    environment: dict[str, str],
    tmp_path: Path,
    number: int,
    code: int,
    form: str,
) -> None:
    """One signal ends it with its exit code, what it has started ends with it, and nothing half-made is left."""
    (project / "bundle.yaml").write_text(BUNDLE)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(GIT)
    (folder / "git").chmod(0o755)
    started = tmp_path / "started"
    process = start(
        *("run", "--bundle", "bundle.yaml", "hello", "--output-format", form),
        env={**environment, "PATH": f"{folder}:{environment['PATH']}", "STARTED": str(started)},
    )
    assert process.stderr is not None
    assert "fetching" in process.stderr.readline()
    wait_until(started.exists, process)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    assert process.returncode == code
    records = [json.loads(line) for line in out.splitlines()]
    expected = [] if form == "text" else [("session", None), ("result", "cancelled")]
    assert [(record["type"], record.get("status")) for record in records] == expected
    assert "Traceback" not in error
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert not list((tmp_path / "home").rglob("*.tmp"))
    assert not (project / "bundle.lock").exists()


#: Runs the program and prints how often settings were loaded.
COUNTING = """\
import atexit, sys
from amplifier_app_cli.main import main
from amplifier_foundation.settings.settings import Settings
load, loads = Settings.load, []
Settings.load = classmethod(lambda cls, *places: loads.append(places) or load(*places))
atexit.register(lambda: print(f"loads: {len(loads)}", file=sys.stderr))
main(sys.argv[1:], prog_name="amplifier")
"""


@pytest.mark.parametrize("arguments", [("run", "--bundle", "minimal", "hello"), ("doctor",)], ids=" ".join)
def test_settings_are_loaded_once(project: Path, environment: dict[str, str], arguments: tuple[str, ...]) -> None:
    """A process reads the settings once, whatever parts of it need them."""
    command = [sys.executable, "-c", COUNTING, *arguments]
    result = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=120)
    assert result.stderr.splitlines()[-1] == "loads: 1", result.stderr
