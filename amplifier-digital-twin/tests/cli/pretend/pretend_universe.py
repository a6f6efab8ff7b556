"""A universe without isolation, for tests of what is around universes: it runs commands on the host, in its folder."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from amplifier_digital_twin.backends.twin import MAX_OUTPUT, Finished, Sink
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import PushedFile
from amplifier_digital_twin.recorder import Recorder
from amplifier_digital_twin.state import Place


def make_universe(
    place: Place, request: dict[str, Any], recorder: Recorder, environ: Mapping[str, str]
) -> PretendUniverse:
    """Return a universe whose behaviour the variable MODE decides."""
    return PretendUniverse(place, request, recorder, environ)


class PretendUniverse:
    def __init__(self, place: Place, request: dict[str, Any], recorder: Recorder, environ: Mapping[str, str]) -> None:
        self.place = place
        self.request = request
        self.recorder = recorder
        self.environ = environ
        self.mode = dict(request["profile"].environment)["MODE"]
        self.files = place.folder / "files"
        self.over = asyncio.Event()

    def note(self, text: str) -> None:
        """Tell a test what happened, in a file that outlives the universe."""
        with open(self.place.folder.parent.parent / "notes.txt", "a", encoding="utf-8") as file:
            file.write(f"{self.place.folder.name} {text}\n")

    def await_leave(self) -> None:
        """Wait until a test allows the end."""
        while not (self.place.folder.parent.parent / "may-end").exists():
            time.sleep(0.02)

    async def launch(self) -> dict[str, Any]:
        self.recorder.progress(f"launching in mode {self.mode}")
        self.files.mkdir()
        (self.files / "locked").mkdir(mode=0o000)
        if self.mode == "fail":
            raise TwinError("pretend_failed", "the launch failed as asked for", "ask for something else")
        if self.mode == "crash":
            raise RuntimeError("a fault of the program")
        if self.mode == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mode == "stray":
            stray = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
            self.note(f"stray {stray.pid}")
        if self.mode in ("slow", "stray", "slow-end"):
            self.note("slow")
            self.recorder.progress("this takes for ever")
            await asyncio.Event().wait()
        if self.mode == "short":
            asyncio.get_running_loop().call_later(0.3, self.over.set)
        return {"backend": "pretend", "ports": [{"label": "web", "host": 1234, "container": 80}]}

    async def ended(self) -> str:
        await self.over.wait()
        return "its time is up"

    async def exec(
        self, command: Sequence[str] | str, user: str | None, timeout: float | None, sink: Sink | None
    ) -> Finished:
        start = time.monotonic()
        argv = ["sh", "-c", command] if isinstance(command, str) else command
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=self.files,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], "TWIN_USER": user or "user"},
            start_new_session=True,
        )
        kept = {"stdout": bytearray(), "stderr": bytearray()}

        async def drain(name: Any, reader: asyncio.StreamReader) -> None:
            while data := await reader.read(65536):
                kept[name] += data[: MAX_OUTPUT - len(kept[name])]
                if sink is not None:
                    sink(name, data)

        assert process.stdout is not None
        assert process.stderr is not None
        is_timed_out = False
        drained = asyncio.gather(drain("stdout", process.stdout), drain("stderr", process.stderr))
        try:
            async with asyncio.timeout(timeout):
                # Shielded: asyncio does not notice the end of a process whose output nobody reads.
                await asyncio.shield(drained)
                await process.wait()
        except TimeoutError:
            is_timed_out = True
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await drained
                await process.wait()
                self.note("killed")
        seconds = time.monotonic() - start
        return Finished(
            process.returncode or 0, bytes(kept["stdout"]), bytes(kept["stderr"]), is_timed_out, False, seconds
        )

    async def check_readiness(self) -> dict[str, Any]:
        return {"ready": (self.files / "ready").exists(), "probes": []}

    async def update(self) -> dict[str, Any]:
        self.recorder.progress("updating")
        return {"updated": True}

    async def status(self) -> dict[str, Any]:
        return {"twin": "running", "environment": sorted(self.environ)}

    async def push(self, file: PushedFile) -> dict[str, Any]:
        target = self.files / file.dest
        target.write_bytes(file.src.read_bytes())
        if file.mode is not None:
            target.chmod(file.mode)
        return {"pushed": 1}

    async def pull(self, source: str, destination: Path) -> dict[str, Any]:
        destination.write_bytes((self.files / source).read_bytes())
        return {"pulled": 1}

    async def snapshot(self, name: str) -> dict[str, Any]:
        return {"snapshot": name}

    async def reset(self, name: str | None) -> dict[str, Any]:
        return {"reset": name}

    async def check(self) -> dict[str, Any]:
        if self.mode == "check-hangs":
            self.note("checking")
            self.recorder.progress("checking for ever")
            await asyncio.Event().wait()
        if self.mode == "check-error":
            raise TwinError("pretend_failed", "the checks cannot be run", "mend them")
        evidence = Path(self.request["evidence"])
        evidence.mkdir(parents=True)
        (evidence / "verdict.json").write_text("{}", encoding="utf-8")
        return {"verdict": "fail" if self.mode == "check-fail" else "pass", "evidence": str(evidence)}

    async def destroy(self) -> None:
        if self.mode == "destroy-raises":
            raise RuntimeError("cannot destroy")
        if self.mode == "slow-end":
            self.note("ending")
            await asyncio.to_thread(self.await_leave)
        self.note("destroyed")
