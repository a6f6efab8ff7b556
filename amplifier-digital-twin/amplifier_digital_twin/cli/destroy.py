"""`amplifier-digital-twin destroy`."""

from __future__ import annotations

from typing import Final

import click

from amplifier_digital_twin.cli.answers import answer, say
from amplifier_digital_twin.cli.kept import find
from amplifier_digital_twin.control_client import ask, connect
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.registry import Found

#: How long a keeper may take to say anything at all, and to destroy its universe.
_ANSWERS: Final = 20.0
_LOCK_SECONDS: Final = 10.0
_DESTROYS: Final = 240.0


@click.command()
@click.argument("given", metavar="ID")
def destroy(given: str) -> None:
    """End a universe and remove every trace of it, also when its keeper has crashed or hangs."""
    found = find(given, alive=False)
    if not (found.is_alive and _ask(found)):
        _remove(found)
    answer({"id": found.state.id, "destroyed": True})


def _ask(found: Found) -> bool:
    """Let the keeper do it; tell whether it has."""
    try:
        ask(connect(found.place.socket), "ping", patience=_ANSWERS)
        ask(connect(found.place.socket), "destroy", progress=say, patience=_DESTROYS)
    except TwinError as error:
        say(f"amplifier-digital-twin: {error.message}: removing the universe without its keeper")
        return False
    from amplifier_digital_twin.keeper_process import await_keeper

    return await_keeper(found.state.holder)


def _remove(found: Found) -> None:
    import asyncio

    from amplifier_digital_twin.keeper_process import end_keeper
    from amplifier_digital_twin.reaping import reap

    if not end_keeper(found.state.holder):
        raise TwinError(
            "keeper_stuck",
            f"process {found.state.holder.pid}, which keeps {found.state.id}, cannot be ended",
            "it waits for the system, perhaps for a network share: try again when that answers",
        )
    if not found.place.folder.exists():
        return
    _await_lock(found)
    reason = asyncio.run(reap(found))
    if reason is not None:
        raise TwinError("universe_kept", f"{found.state.id} was not removed: {reason}", "try again")


def _await_lock(found: Found) -> None:
    """Wait a little for the lock of a universe: children of a killed keeper have it until they are gone, too."""
    import time

    end = time.monotonic() + _LOCK_SECONDS
    while time.monotonic() < end:
        with found.place.held() as is_held:
            if is_held:
                return
        time.sleep(0.01)
