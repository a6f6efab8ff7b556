"""A process that keeps universes, as the real keeper does, and does what it is told: one JSON object for each line.

Run by the tests as themselves and as another user.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

from amplifier_digital_twin.backends.twin import Run, TwinSpec
from amplifier_digital_twin.embedded import backend as backend_module
from amplifier_digital_twin.embedded import call_filter
from amplifier_digital_twin.embedded.backend import EmbeddedBackend
from amplifier_digital_twin.embedded.id_maps import IdMap
from amplifier_digital_twin.embedded.twin import EmbeddedTwin
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.profile.model import Base, Limits, Tar, User

ENVIRONMENT = {"PATH": "/opt/twin/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/user", "LC_ALL": "C.UTF-8"}


async def _no_overlay(folder: Path, ids: IdMap) -> str:
    return "not in this test"


class Keeper:
    """The universes of this process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._backend = EmbeddedBackend()
        self._twins: dict[str, EmbeddedTwin] = {}

    def _spec(self, order: dict[str, Any]) -> TwinSpec:
        tar = order.get("tar")
        base = Base(order.get("image", "host"), None if tar is None else Tar(Path(tar[0]), tar[1]))
        return TwinSpec(
            id=order["id"],
            folder=self._folder / "universes" / order["id"],
            cache=self._folder / "cache",
            base=base,
            user=User(*order.get("user", ["user", 1000])),
            limits=Limits(**order.get("limits", {})),
            network=order.get("network", "none"),
            hostname="twin",
            files={path: (text.encode(), mode) for path, (text, mode) in order.get("files", {}).items()},
            tools={name: Path(path) for name, path in order.get("tools", {}).items()},
            layer=order.get("layer"),
            require=tuple(order.get("require", ())),
            is_strict=order.get("is_strict", True),
        )

    async def perform(self, order: dict[str, Any]) -> Any:
        match order["do"]:
            case "forbid_overlays":
                backend_module.overlay_reason = _no_overlay  # type: ignore[attr-defined]  # imported there
                return None
            case "forbid_call_filters":
                call_filter.missing_reason = lambda: "not in this test"
                return None
            case "probe":
                return await self._backend.probe()
            case "create":
                twin = await self._backend.create(self._spec(order), lambda _: None)
                self._twins[order["id"]] = twin
                return {"pid": twin.pid, "notes": list(twin.notes)}
            case "run":
                user = User(*order.get("as", ["user", 1000]))
                argv = ["/bin/sh", "-c", order["shell"]]
                environment = ENVIRONMENT | order.get("environment", {})
                stdin = base64.b64decode(order.get("stdin", ""))
                run = Run(argv, environment, user, stdin=stdin, timeout=order.get("timeout", 60))
                done = await self._twins[order["id"]].run(run)
                out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
                return {"code": done.exit_code, "out": out, "err": err, "is_timed_out": done.is_timed_out}
            case "snapshot":
                return await self._twins[order["id"]].snapshot(order["name"], order.get("cache", False))
            case "reset":
                return await self._twins[order["id"]].reset(order.get("name"))
            case "destroy":
                return await self._twins[order["id"]].destroy()
            case "state":
                twin = self._twins[order["id"]]
                return {"pid": twin.pid, "is_running": twin.is_running, "notes": list(twin.notes)}
            case "has_layer":
                return await self._backend.has_layer(self._folder / "cache", order["name"])
            case "remove":
                return await self._backend.remove(self._folder / "universes" / order["id"], order["id"])
        raise ValueError(order)


async def main() -> None:
    """Perform orders until there are no more."""
    keeper = Keeper(Path(sys.argv[1]))
    while line := await asyncio.to_thread(sys.stdin.readline):
        try:
            answer: dict[str, Any] = {"is_ok": True, "value": await keeper.perform(json.loads(line))}
        except TwinError as error:
            answer = {"is_ok": False, "error": error.record()}
        except Exception as error:
            answer = {"is_ok": False, "error": {"code": type(error).__name__, "message": repr(error), "remedy": ""}}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
