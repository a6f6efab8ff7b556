"""A server of plain Python that behaves as its first argument says: it starts at once and can be as odd as it likes."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

BEHAVIOUR = sys.argv[1]
OPTION = sys.argv[2] if len(sys.argv) > 2 else ""
NAMES: tuple[str, ...] = ("echo", "crash", "never", "flood", "malformed", "invalid", "change", "huge", "secret")
NAMES += ("write", "reach", "half", "shapeless")
TOOLS = [{"name": name, "description": f"{name} it", "inputSchema": {"type": "object"}} for name in NAMES]


def send(message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def answer(identity: Any, **result: Any) -> None:
    send({"jsonrpc": "2.0", "id": identity, "result": result})


def say(identity: Any, text: str) -> None:
    answer(identity, content=[{"type": "text", "text": text}])


def attempt(identity: Any, work: Callable[[], Any]) -> None:
    try:
        say(identity, str(work()))
    except OSError as error:
        answer(identity, content=[{"type": "text", "text": str(error)}], isError=True)


def write(path: str) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write("written")
    return "written"


def reach(address: Any, family: str = "AF_INET") -> str:
    import socket

    with socket.socket(getattr(socket, family)) as client:
        client.connect(tuple(address) if isinstance(address, list) else address)
    return "reached"


def notify(method: str) -> None:
    send({"jsonrpc": "2.0", "method": method})


def call(identity: Any, name: str, arguments: dict[str, Any]) -> None:
    if name == "crash":
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(3)
    elif name == "flood":
        while True:
            notify("notifications/resources/list_changed")
    elif name == "malformed":
        while True:
            sys.stdout.write("this is no message\n")
    elif name == "invalid":
        answer(identity, content="no list")
    elif name == "huge":
        while True:
            sys.stdout.write("x" * 65536)
    elif name == "change":
        TOOLS.append({"name": "fresh", "inputSchema": {"type": "object"}})
        TOOLS[:] = [tool for tool in TOOLS if tool["name"] != "never"]
        notify("notifications/tools/list_changed")
        say(identity, "changed")
    elif name == "secret":
        sys.stderr.write(f"on stderr: {sys.argv[2:]} {os.environ.get('ODD_KEY')}\n")
        sys.stderr.flush()
        say(identity, f"{os.environ.get('ODD_KEY')} {OPTION}")
    elif name == "half":
        say(identity, "half \ud83d")
    elif name == "shapeless":
        send({"jsonrpc": "2.0", "id": identity, "result": "no object"})
    elif name == "write":
        attempt(identity, lambda: write(**arguments))
    elif name == "reach":
        attempt(identity, lambda: reach(**arguments))
    elif name != "never":
        say(identity, json.dumps(arguments))


def handle(message: dict[str, Any]) -> None:
    method, identity, given = message.get("method"), message.get("id"), message.get("params") or {}
    if method == "initialize":
        answer(
            identity,
            protocolVersion=given["protocolVersion"],
            capabilities={"tools": {"listChanged": True}},
            serverInfo={"name": "odd", "version": "1"},
        )
    elif method == "tools/list":
        answer(identity, tools=TOOLS)
    elif method == "tools/call":
        call(identity, given["name"], given.get("arguments") or {})
    elif identity is not None and method is not None:
        send({"jsonrpc": "2.0", "id": identity, "error": {"code": -32601, "message": f"no {method}"}})


def main() -> None:
    if BEHAVIOUR == "once":  # the second start fails
        try:
            os.mkdir(OPTION)
        except FileExistsError:
            sys.exit("only once")
    if BEHAVIOUR == "exit":
        sys.exit(f"cannot start: {OPTION}")
    if BEHAVIOUR == "silent":
        time.sleep(100_000)
    if BEHAVIOUR == "slow":
        while not os.path.exists(OPTION):
            time.sleep(0.01)
    if BEHAVIOUR == "deep":
        schema: dict[str, Any] = {"type": "object"}
        for _ in range(80):
            schema = {"type": "object", "properties": {"inner": schema}}
        TOOLS.append({"name": "deep", "inputSchema": schema})
    if BEHAVIOUR == "garbage":
        while True:
            sys.stdout.write("garbage\n")
    if BEHAVIOUR == "endless":
        while True:
            sys.stdout.write("x" * 65536)
    if BEHAVIOUR == "chatty":
        sys.stdout.write("a print that went astray\n\n{}\n[1, 2]\n\xff\xfe\n")
    for line in sys.stdin:
        handle(json.loads(line))
    if BEHAVIOUR == "stays":
        time.sleep(100_000)


main()
