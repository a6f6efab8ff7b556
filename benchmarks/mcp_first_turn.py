"""Measure what MCP servers add to the first turn of a session.

The same session is started in a separate process each: without `tool-mcp`, with it and no server, with a server that
answers at once, and with one that never says a word; the time is taken of the start of the session, in which modules
are imported, and of its first turn. The model answers at once, and for further rows after half a second, when the
protocol's library is just being imported in the background. Every round starts each of them once, in changing order.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from children import environment
from harness import Row, Setting, lower_quartile

#: The first turn must not wait for a server.
TARGET_MS = 10.0
#: To import the module and to read the list of servers is all there is to do at the start.
START_TARGET_MS = 30.0
#: An answer that comes while the library is imported shares the interpreter with that import, in turns of 5 ms.
BUSY_TARGET_MS = 50.0
DELAYS = {"at once": 0, "after 500 ms": 500}
ANSWER = "The answer."
SERVER = """\
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    given = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
    if asked.get("method") == "initialize":
        given = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                 "serverInfo": {"name": "fast", "version": "1"}}
    elif asked.get("method") != "tools/list":
        given = None
    if "id" in asked:
        found = {"result": given} if given else {"error": {"code": -32601, "message": "no such method"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **found}), flush=True)
"""
SERVERS: dict[str, Any] = {
    "without tool-mcp": None,
    "no server": {},
    "a server that answers at once": {"fast": {"command": sys.executable, "args": ["-S", "server.py"]}},
    "a server that never answers": {"never": {"command": "sleep", "args": ["100000"]}},
}


def plan(servers: Any, delay_ms: int, folder: Path) -> dict[str, Any]:
    """Return the plan of a session with these servers, None for one without the module."""
    script = folder / f"script-{delay_ms}.json"
    script.write_text(json.dumps({"turns": [{"delay_ms": delay_ms, "text": ANSWER}]}), encoding="utf-8")
    mcp = [] if servers is None else [{"module": "tool-mcp", "config": {"servers": servers}}]
    return {
        "session": {"orchestrator": {"module": "loop-streaming"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(script)}}],
        "tools": [{"module": "tool-todo"}, *mcp],
        "hooks": [{"module": "hooks-logging"}],
    }


async def first_turn(name: str, delay_ms: int, folder: Path) -> tuple[float, float]:
    """Return how long a session takes to start and for its first turn, in milliseconds."""
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime

    prepared = Prepared.from_plan(plan(SERVERS[name], delay_ms, folder), folder / "home", folder, name="first")
    start = time.perf_counter()
    async with SessionRuntime(prepared) as runtime:
        started = time.perf_counter()
        answer = await runtime.execute("Hello.")
        ended = time.perf_counter()
    if ANSWER not in str(answer):
        raise RuntimeError(f"the session with {name} answered {answer!r}")
    return (started - start) * 1000, (ended - started) * 1000


def once(name: str, delay_ms: int, folder: Path) -> tuple[float, float]:
    """Measure one start and first turn in a separate process; raise RuntimeError when it fails."""
    command = [sys.executable, __file__, name, str(delay_ms), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=100, check=False)
    if done.returncode:
        raise RuntimeError(f"the session with {name} failed:\n{done.stderr[-2000:]}")
    start, turn = map(float, done.stdout.splitlines()[-1].split())
    return start, turn


def measure(setting: Setting) -> list[Row]:
    """Return the rows: what each kind of server adds to the start, and to the turn with both kinds of model."""
    starts: dict[str, list[float]] = {name: [] for name in SERVERS}
    rows = []
    for when, delay_ms in DELAYS.items():
        turns: dict[str, list[float]] = {name: [] for name in SERVERS}
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            (folder / "server.py").write_text(SERVER, encoding="utf-8")
            for number in range(setting.rounds):
                names = list(SERVERS)
                for each in names[number % 4 :] + names[: number % 4]:
                    start, turn = once(each, delay_ms, folder)
                    starts[each].append(start)
                    turns[each].append(turn)
        rows += _added(f"first turn, model answers {when}", turns, BUSY_TARGET_MS if delay_ms else TARGET_MS)
    return rows + _added("start of the session", starts, START_TARGET_MS)


def _added(what: str, taken: dict[str, list[float]], target: float) -> list[Row]:
    alone, *others = (lower_quartile(values) for values in taken.values())
    return [
        Row(f"{what}: tool-mcp with {server} adds, to {alone:.0f} ms", max(0.0, value - alone), most=target)
        for server, value in zip(list(SERVERS)[1:], others, strict=True)
    ]


if __name__ == "__main__":
    print(*asyncio.run(first_turn(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
