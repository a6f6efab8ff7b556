"""Several processes and the same source; processes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetcher import Fetcher

Environ = dict[str, str]
FakeGit = Callable[[str], Path]
Gone = Callable[[int], bool]
Until = Callable[[Callable[[], bool]], bool]

FETCH = """
import asyncio, sys
from pathlib import Path
from amplifier_foundation.paths import Home
from amplifier_foundation.sources.fetcher import Fetcher
def say(text): print(text, flush=True)
fetched = asyncio.run(Fetcher(Home(Path(sys.argv[1])), on_progress=say).fetch(sys.argv[2]))
print("commit", fetched.commit, fetched.sha256, flush=True)
"""
#: Real git, but a clone waits until a file is there; how many clones began is the number of lines of `clones`.
WAITING = """
case "$*" in *clone*)
  echo $$ >> "$HERE/clones"
  i=0; while [ ! -e "$HERE/go" ] && [ $i -lt 3000 ]; do sleep 0.02; i=$((i+1)); done;;
esac
exec "{git}" "$@"
"""


def start(home: Home, uri: str, environ: Environ) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, str(home.path), uri],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def real_git() -> str:
    from shutil import which

    found = which("git")
    assert found is not None
    return found


def first_clone(fake: Path, until: Until) -> int:
    """Return the process of the clone that began first; a shell makes the file before it writes into it."""
    clones = fake / "clones"
    assert until(lambda: clones.exists() and "\n" in clones.read_text(encoding="utf-8"))
    return int(clones.read_text(encoding="utf-8").partition("\n")[0])


def kept(home: Home) -> list[str]:
    return [path.name for path in home.cache.iterdir() if not path.name.endswith(".lock")]


def test_two_processes_fetch_the_same_source_once(
    home: Home, environ: Environ, repository: Any, fake_git: FakeGit, until: Until
) -> None:
    """One process fetches, the other says that it waits, and both get the same copy."""
    fake = fake_git(WAITING.format(git=real_git()))
    both = [start(home, repository.uri, environ) for _ in range(2)]
    try:
        assert until((fake / "clones").exists)
        lines = [process.stdout.readline() for process in both if process.stdout is not None]
        (fake / "go").touch()
        ends = [process.communicate(timeout=120)[0] for process in both]
    finally:
        for process in both:
            process.kill()
            process.wait()

    assert sorted(lines) == [
        f"fetching {repository.uri}\n",
        f"waiting for another process that fetches {repository.uri}\n",
    ]
    assert len(set(ends)) == 1
    assert ends[0].startswith(f"commit {repository.git('rev-parse', 'main')} ")
    assert len((fake / "clones").read_text(encoding="utf-8").splitlines()) == 1
    assert len(kept(home)) == 1


async def test_a_killed_fetch_is_never_used(
    home: Home, environ: Environ, repository: Any, fake_git: FakeGit, until: Until, is_gone: Gone
) -> None:
    """When the fetching process is killed in the middle, the next one starts anew and sweeps what it left."""
    fake = fake_git(WAITING.format(git=real_git()))
    killed = start(home, repository.uri, environ)
    try:
        orphan = first_clone(fake, until)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.communicate()
    left = kept(home)
    os.kill(orphan, signal.SIGKILL)
    assert is_gone(orphan)
    (fake / "go").touch()

    fetched = await Fetcher(home, environ=environ).fetch(repository.uri)

    assert len(left) == 1
    assert left[0].endswith(".tmp")
    assert kept(home) == [fetched.root.name]
    assert (fetched.root / "bundle.md").exists()


def test_the_waiting_process_goes_on_when_the_fetching_one_is_killed(
    home: Home, environ: Environ, repository: Any, fake_git: FakeGit, until: Until
) -> None:
    """A process that dies lets go of the source, and the one that waits fetches it."""
    fake = fake_git(WAITING.format(git=real_git()))
    first = start(home, repository.uri, environ)
    second = None
    try:
        orphan = first_clone(fake, until)
        second = start(home, repository.uri, environ)
        assert second.stdout is not None
        assert second.stdout.readline().startswith("waiting")
        first.kill()
        first.communicate()
        os.kill(orphan, signal.SIGKILL)
        (fake / "go").touch()
        output = second.communicate(timeout=120)[0]
    finally:
        for process in (first, second):
            if process is not None:
                process.kill()
                process.wait()

    assert second.returncode == 0, output
    assert output.splitlines()[0] == f"fetching {repository.uri}"
    assert output.splitlines()[-1].startswith(f"commit {repository.git('rev-parse', 'main')} ")
