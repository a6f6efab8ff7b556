"""Start a universe for `launch` and `check`: the profile, the folder, the keeper, and what Ctrl-C does to them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_digital_twin.cli.answers import say
from amplifier_digital_twin.cli.interruption import Interrupted, deferred, raise_deferred
from amplifier_digital_twin.control_client import ask
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.registry import Found, Registry, Wish

if TYPE_CHECKING:
    from amplifier_digital_twin.early import KeeperProcess
    from amplifier_digital_twin.profile.model import Profile

#: How long a universe may exist when nothing else is asked for.
LEASE: Final = "8h"
#: How long the end of a universe may take before its keeper is ended by force.
_PATIENCE: Final = 240.0
#: How often it is looked whether a keeper that is to end knows of it.
_LOOK: Final = 1.0


class Options(NamedTuple):
    """What a user said on the command line."""

    profile: str
    variables: tuple[str, ...] = ()
    name: str | None = None
    base: str | None = None
    backend: str | None = None
    lease: str = LEASE
    keep: bool = False


def run_universe(
    op: str, options: Options, evidence: Path | None, tell: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Make a universe by asking its keeper for `op`; tell and return the answer with the universe's identifier.

    Raises TwinError when it fails. A signal, or anything else that ends it before a universe that stays was told of,
    destroys the universe; a second signal ends the program at once, and the keeper goes on destroying. When nobody
    reads what is told (BrokenPipeError), the universe stays.
    """
    from amplifier_digital_twin.profile.load import load, parse_variables

    variables = parse_variables(options.variables)
    lease = _lease(options.lease)
    profile, _, notes = load(options.profile, variables, os.environ)
    for note in notes:
        say(f"note: {note}")
    _refuse_missing_secrets(profile)
    registry = Registry.find()
    with deferred():
        found = registry.create(Wish(options.name, profile.name, profile.path, lease))
        keeper = _start(found, _request(found, profile, options, registry, evidence), profile)
    try:
        raise_deferred()
        say(f"universe {found.state.id}")
        names = {"id": found.state.id, "name": found.state.name, "profile": found.state.profile}
        result = {**names, **ask(keeper.connection, op, progress=say)}
        if is_kept := result.get("kept", True):
            tell(result)
    except BrokenPipeError:
        raise
    except BaseException as error:
        keeper.connection.close()
        raise _after_fault(error, found, keeper) from error
    if not is_kept:
        _await_end(found, keeper)
        tell(result)
    return result


def _lease(text: str) -> float:
    from amplifier_digital_twin.profile.quantities import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise TwinError("bad_argument", f"--lease {text!r}: {error}", "write it like 30m, 8h or 2d") from error


def _refuse_missing_secrets(profile: Profile) -> None:
    missing = [secret.env for secret in profile.secrets if not secret.optional and not os.environ.get(secret.env)]
    if missing:
        raise TwinError(
            "secret_missing",
            f"{profile.path}: the profile needs {', '.join(missing)}, which the environment has not",
            f"set it in the environment: export {missing[0]}=…",
        )


def _request(
    found: Found, profile: Profile, options: Options, registry: Registry, evidence: Path | None
) -> dict[str, Any]:
    """Return what the keeper reads. The profile itself is not in it: there may be a token in it, and this is a file."""
    return {
        "id": found.state.id,
        "name": found.state.name,
        "profile": str(profile.path),
        "base": options.base,
        "backend": options.backend,
        "keep": options.keep,
        "keep_failed": options.keep or profile.on_failure == "keep",
        "evidence": str(evidence if evidence is not None else registry.evidence / found.state.id),
        "secrets": [secret.env for secret in profile.secrets],
    }


def _start(found: Found, request: dict[str, Any], profile: Profile) -> KeeperProcess:
    """Start the keeper; when that cannot be done, nothing stays."""
    import json

    from amplifier_digital_twin.early import take_keeper
    from amplifier_digital_twin.keeper_process import Orders, keeper_environment, send_orders
    from amplifier_foundation.files import replace_file

    try:
        replace_file(found.place.request, json.dumps(request, indent=1).encode())
        keeper = take_keeper()
        environment = keeper_environment(os.environ, request["secrets"], found.state.id)
        send_orders(keeper, Orders(found.place, environment, profile))
    except BaseException:
        _reap(found)
        raise
    return keeper


def _after_fault(error: BaseException, found: Found, keeper: KeeperProcess) -> BaseException:
    """See to it that what is to go is gone; return what is to be raised."""
    if isinstance(error, TwinError):
        return _with_last_words(error, found, keeper)
    if isinstance(error, Interrupted):
        say("amplifier-digital-twin: stopping: the universe is being destroyed")
    _await_end(found, keeper)
    return error


def _with_last_words(error: TwinError, found: Found, keeper: KeeperProcess) -> TwinError:
    """Return an error that the keeper told; for one that died without telling, what it wrote last."""
    if error.code != "keeper_ended":
        return error
    from amplifier_digital_twin.keeper_process import last_words

    keeper.process.wait()
    words = last_words(found.place, keeper)
    _reap(found)
    return TwinError(
        "keeper_ended",
        f"the keeper of {found.state.id} ended with code {keeper.process.returncode}: {words or 'it said nothing'}",
        "what it had made is removed: try again, and report it when it happens again",
    )


def _await_end(found: Found, keeper: KeeperProcess) -> None:
    """Wait until the keeper, whose connection is closed, has destroyed the universe; end it when it does not."""
    try:
        for _ in range(int(_PATIENCE / _LOOK)):
            if _is_launched(found):
                # It had answered before the connection was closed, and takes nobody to be waiting.
                keeper.process.terminate()
            if _has_ended(keeper):
                break
        else:
            keeper.process.kill()
            keeper.process.wait()
    except Interrupted:
        say(f"amplifier-digital-twin: not waiting: process {keeper.process.pid} goes on destroying {found.state.id}")
        raise
    if found.place.folder.exists():
        _reap(found)


def _is_launched(found: Found) -> bool:
    try:
        return found.place.read().phase in ("ready", "failed")
    except TwinError:
        return False  # it is gone


def _has_ended(keeper: KeeperProcess) -> bool:
    try:
        keeper.process.wait(_LOOK)
    except TimeoutError:
        return False
    return True


def _reap(found: Found) -> None:
    import asyncio

    from amplifier_digital_twin.reaping import reap

    asyncio.run(reap(found))
