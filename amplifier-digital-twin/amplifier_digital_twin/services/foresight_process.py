"""Foresight in a process of its own: reading pages takes a processor for seconds, and the keeper has to answer."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from amplifier_digital_twin.early import kept_environment
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.holder import MARK_VARIABLE

#: How long it may take to end when it is told to.
_PATIENCE: Final = 5.0
_NICENESS: Final = 10

_log: Final = logging.getLogger(__name__)


class ForesightProcess:
    """Runs until everything foreseen is in the cache of the package index, or it is closed."""

    def __init__(
        self, cache: Path, packages: Sequence[str], repositories: Sequence[Path], environ: Mapping[str, str]
    ) -> None:
        """Start it; where that cannot be done, nothing is foreseen."""
        self._process: subprocess.Popen[bytes] | None = None
        orders = {"cache": str(cache), "packages": list(packages), "repositories": [str(path) for path in repositories]}
        # None of the profile's secrets; the mark says whose it is.
        environment = {**kept_environment(environ), MARK_VARIABLE: environ.get(MARK_VARIABLE, "")}
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,
            )
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(orders).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            _log.warning("nothing is fetched ahead: %s", error)

    async def done(self) -> None:
        """Return when it has ended."""
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)

    async def close(self) -> None:
        """End it; a second time does nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        try:
            process.stdin.close()
        except OSError:
            pass  # it has ended already
        try:
            await asyncio.to_thread(process.wait, _PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            await asyncio.to_thread(process.wait)


async def _look(orders: dict[str, Any], environ: Mapping[str, str]) -> None:
    from amplifier_digital_twin.remembered import Remembered
    from amplifier_digital_twin.services.foresight import Foresight
    from amplifier_digital_twin.services.host_index import HostIndex
    from amplifier_digital_twin.services.index_cache import IndexCache

    cache = Path(orders["cache"])
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def end() -> None:
        # Once: what is cleaned up must not be cancelled again.
        loop.remove_reader(0)
        task.cancel()

    # The keeper writes nothing more: what can be read is its end.
    loop.add_reader(0, end)
    upstream = await HostIndex.from_host(environ, Remembered(cache / "answers"))
    try:
        repositories = [Path(path) for path in orders["repositories"]]
        await Foresight(upstream, IndexCache(cache / "index"), orders["packages"], repositories).look()
    finally:
        await upstream.close()


def main() -> int:
    """Run `python -m amplifier_digital_twin.services.foresight_process`: orders on standard input, which stays open."""
    line = bytearray()
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 65536)):
            return 0
        line += piece
    # It is ahead of everybody who needs what it fetches: whatever is built meanwhile goes first.
    os.nice(_NICENESS)
    try:
        asyncio.run(_look(json.loads(line), os.environ))
    except asyncio.CancelledError:
        pass  # the keeper needs nothing more
    except TwinError:
        return 1  # the keeper meets the same, and tells it
    return 0


if __name__ == "__main__":
    sys.exit(main())
