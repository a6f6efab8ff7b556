"""Ports of the host's loopback that lead to ports inside a universe: `python -m amplifier_digital_twin.forward CONFIG`.

Every connection becomes the standard streams of one command inside, `socat - TCP:127.0.0.1:PORT`.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from amplifier_digital_twin.profile.model import Port
from amplifier_digital_twin.services.config import ProcessIdentity
from amplifier_kit.guard.processes.launch import open_process


class ForwardConfig(BaseModel):
    """What is forwarded, for how long, and how the inside is reached."""

    ports: tuple[Port, ...]
    #: The command that runs, with stdin, what is appended to it.
    argv: tuple[str, ...]
    until: ProcessIdentity


def connect_command(port: int) -> list[str]:
    """Return the command inside whose standard streams are a connection to a port there."""
    return ["socat", "-", f"TCP:127.0.0.1:{port}"]


def serve(config: ForwardConfig) -> int:
    """Forward until the universe ends; print one JSON line with the ports, or with the error."""
    opened: list[dict[str, Any]] = []
    with selectors.DefaultSelector() as selector:
        for port in config.ports:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port.host))
            except OSError as error:
                message = f"port {port.host} of the host cannot be opened: {error.strerror}"
                remedy = "set `host: 0` in `access.ports`, which takes a free one"
                _answer({"error": {"code": "port_taken", "message": message, "remedy": remedy}})
                return 2
            listener.listen()
            selector.register(listener, selectors.EVENT_READ, port.container)
            number = listener.getsockname()[1]
            url = f"http://127.0.0.1:{number}{port.path}"
            opened.append({"label": port.label, "host": number, "container": port.container, "url": url})
        _answer({"ports": opened})
        children: list[Any] = []
        while config.until.is_running():
            for key, _ in selector.select(1.0):
                assert isinstance(key.fileobj, socket.socket)
                connection, _address = key.fileobj.accept()
                with connection:
                    argv = [*config.argv, *connect_command(key.data)]
                    number = connection.fileno()
                    children.append(open_process(argv, environment=os.environ, stdin=number, stdout=number))
            children = [child for child in children if child.poll() is None]
        for child in children:
            child.kill()
            child.wait()
    return 0


def _answer(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(serve(ForwardConfig.model_validate_json(Path(sys.argv[1]).read_bytes())))
