"""The program of the child process: serve one model on a socket until the parent is gone.

It is run as a file, without the rest of the package: `python -I child.py`, with one line of JSON on standard input. The
end of that input is the end of the process, and so is the end of the parent, however it came.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any, Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1


def main() -> NoReturn:
    """Read the order, load the model, and serve it; what is wrong with the model is said on standard error."""
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # While the model is loaded no Python runs: then only the kernel can end this process.
    die_with_parent(order["parent"], signal.SIGKILL)
    socket = order["socket"]
    sys.path.append(order["engine"])
    served = serve(order, socket)
    signal.signal(signal.SIGTERM, lambda number, frame: leave(socket, served))
    die_with_parent(order["parent"], signal.SIGTERM)
    sys.stdin.buffer.read()
    leave(socket, served)


def serve(order: dict[str, Any], socket: str) -> Any:
    """Load the model and return the server, which answers on the socket for as long as it is referred to."""
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
    # One batch cannot be interrupted: a smaller one lets a cancelled request go sooner.
    params.n_batch = params.n_ubatch = order["batch"]
    params.cache_ram_mib = order["cache_mib"]
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = order["threads"]
    if order["gpu_layers"] is not None:
        params.n_gpu_layers = order["gpu_layers"]
    if order["chat_template"]:
        params.chat_template = order["chat_template"]
    return xllamacpp.Server(params)


def die_with_parent(parent: int, how: signal.Signals) -> None:
    """Have the system signal this process when its parent ends; where it cannot, the end of input must do."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(how))
    if os.getppid() != parent:
        os._exit(0)  # it was gone before it could be asked for


def leave(socket: str, served: Any) -> NoReturn:
    """End at once, with the server still there: an orderly exit can crash or hang while an answer is being made."""
    import contextlib

    with contextlib.suppress(OSError):
        os.unlink(socket)
    with contextlib.suppress(OSError):
        os.rmdir(os.path.dirname(socket))
    os._exit(0)


if __name__ == "__main__":
    main()
