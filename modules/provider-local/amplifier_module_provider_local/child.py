"""The program of the child process: serve one model on a socket until the parent ends.

It runs as a file, without the rest of the package: `python -I child.py`, with one line of JSON on standard input. It
ends when that input ends, or when the parent ends for any reason.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1


def main() -> NoReturn:
    """Read the order, load the model, and serve it; errors of the model go to standard error."""
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # No Python code runs while the model loads: only the operating system can end this process then.
    die_with_parent(order["parent"], signal.SIGKILL)
    socket = order["socket"]
    sys.path.append(order["engine"])
    served = serve(order, socket)
    signal.signal(signal.SIGTERM, lambda number, frame: leave(socket, served))
    die_with_parent(order["parent"], signal.SIGTERM)
    sys.stdin.buffer.read()
    leave(socket, served)


def serve(order: dict[str, Any], socket: str) -> Any:
    """Load the model and return the server, which answers on the socket as long as the object lives."""
    import xllamacpp  # type: ignore[import-not-found, unused-ignore]

    params = xllamacpp.CommonParams()
    params.model.path = order["model"]
    params.model_alias = {order["name"]}
    params.hostnames = [socket]
    params.api_keys = [order["key"]]
    params.cors_origins = ""
    params.ui = False
    params.offline = True
    params.endpoint_slots = False
    params.verbosity = 1  # errors only
    params.warmup = False
    params.n_ctx = order["context"]
    # A batch cannot be interrupted: with a smaller one, a cancelled request ends sooner.
    params.n_batch = params.n_ubatch = order["batch"]
    params.cache_ram_mib = order["cache_mib"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    if order["gpu_layers"] is not None:
        params.n_gpu_layers = order["gpu_layers"]
    if order["chat_template"]:
        params.chat_template = order["chat_template"]
    return xllamacpp.Server(params)


def die_with_parent(parent: int, how: signal.Signals) -> None:
    """Let the system signal this process when its parent ends; on other systems, the end of input has to do."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(how))
    if os.getppid() != parent:
        os._exit(0)  # the parent ended before the call


def leave(socket: str, served: Any) -> NoReturn:
    """End at once, without stopping the server: an orderly exit can crash or hang during an answer."""
    import contextlib

    with contextlib.suppress(OSError):
        os.unlink(socket)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(socket))
    os._exit(0)


if __name__ == "__main__":
    main()
