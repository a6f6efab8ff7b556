"""The processes that hold universes, and that may be there before anything is known of these."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.backends.twin import Run, TwinSpec
from amplifier_digital_twin.embedded import backend as backend_module
from amplifier_digital_twin.embedded import twin as twin_module
from amplifier_digital_twin.embedded.anchor import Anchor
from amplifier_digital_twin.embedded.backend import EmbeddedBackend
from amplifier_digital_twin.embedded.staged import Stage, Staged
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Limits, User


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Anchor]:
    """Return every anchor that is started."""
    found: list[Anchor] = []

    class Seen(Anchor):
        def __init__(self) -> None:
            super().__init__()
            found.append(self)

    for module in (backend_module, twin_module):
        monkeypatch.setattr(module, "Anchor", Seen)
    return found


def spec(folder: Path, **changes: Any) -> TwinSpec:
    """Return the specification of a universe that nobody else makes."""
    given: dict[str, Any] = {"user": User(), "limits": Limits(), "network": "none", "hostname": "twin", **changes}
    identifier = f"test-{os.getpid()}-{os.urandom(3).hex()}"
    return TwinSpec(identifier, folder / identifier, folder / "cache", Base(), **given)


async def test_the_one_that_waits_is_used(made: list[Anchor], tmp_path: Path) -> None:
    """A universe that was expected is held by the process that was started for it; the next start has its own."""
    backend = EmbeddedBackend()
    async with backend.expecting():
        twin = await backend.create(spec(tmp_path), lambda _: None)
    try:
        assert len(made) == 1
        assert made[0].is_running
        assert (await twin.run(Run(["/bin/echo", "here"], {}, User(), timeout=60))).stdout == b"here\n"
        await twin.reset()
        assert len(made) == 2
        assert (made[0].is_running, made[1].is_running) == (False, True)
    finally:
        await twin.destroy()
    assert not made[1].is_running


async def test_one_that_was_not_needed_is_given_up(made: list[Anchor], tmp_path: Path) -> None:
    """When no universe was made, or could not be, the process that waited for it is gone."""
    backend = EmbeddedBackend()
    async with backend.expecting():
        waited = made[0].is_running
    assert (waited, made[0].is_running) == (True, False)
    async with backend.expecting():
        with pytest.raises(TwinError, match="no file can be put"):
            await backend.create(spec(tmp_path, files={"/tmp/x": (b"", 0o644)}), lambda _: None)
        assert not made[1].is_running
    assert len(made) == 2


async def test_closing_twice_does_nothing() -> None:
    """The second time is no fault."""
    anchor = Anchor()
    await anchor.close()
    await anchor.close()
    assert not anchor.is_running


async def test_a_process_that_ended_while_it_waited_hears_nothing() -> None:
    """What it was to do does not happen, which its end tells."""
    process = Staged()
    process.kill()
    await process.wait()
    process.begin(Stage(), ["/bin/true"])
    assert not process.is_running
    await process.close()


@pytest.mark.parametrize("ending", ["os._exit(0)", "os.kill(os.getpid(), 9)"])
def test_without_its_starter_none_waits(ending: str) -> None:
    """However the process that started it ends, the one that waits ends too."""
    code = (
        "import os\n"
        "from amplifier_digital_twin.embedded.staged import Staged\n"
        f"print(Staged().pid, flush=True)\n{ending}"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, check=False)
    pid = int(done.stdout)
    end = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not Path(f"/proc/{pid}").exists()
