"""The config keys that are Ollama's alone, and the address of its server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from amplifier_kit.llm import env_or_config, read_bool, read_float, read_int

__all__ = ["OllamaSettings", "host_of"]

_PORT: Final = 11434
_HOST: Final = f"http://localhost:{_PORT}"
#: What servers listen on, and nobody can be called at everywhere.
_ANYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}


@dataclass(frozen=True)
class OllamaSettings:
    """Hold Ollama's own settings."""

    max_tokens: int = 4096
    temperature: float | None = 0.7
    auto_pull: bool = False
    #: The window to ask for; 0 leaves it to the server.
    num_ctx: int = 0
    enable_thinking: bool = True

    @classmethod
    def read(cls, config: Mapping[str, Any]) -> OllamaSettings:
        """Read a config; raises ValueError that names the key and what it must be."""
        is_left = "temperature" in config and config["temperature"] is None
        return cls(
            max_tokens=read_int(config, "max_tokens", 4096, least=1),
            temperature=None if is_left else read_float(config, "temperature", 0.7),
            auto_pull=read_bool(config, "auto_pull", False),
            num_ctx=read_int(config, "num_ctx", 0),
            enable_thinking=read_bool(config, "enable_thinking", True),
        )


def host_of(config: Mapping[str, Any]) -> str:
    """Return the server's URL; `OLLAMA_HOST` may leave out parts of it, or say where the server listens.

    Raises ValueError for what is no address.
    """
    given = env_or_config(config, "host", ("OLLAMA_HOST",)) or _HOST
    has_scheme = "://" in given
    if not has_scheme and given.startswith(":"):
        given = f"127.0.0.1{given}"
    try:
        parts = urlsplit(given if has_scheme else f"http://{given}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ValueError(f"host: {given!r} is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError(f"host: must be an address like {_HOST}, got {given!r}")
    name = _ANYWHERE.get(host) or (f"[{host}]" if ":" in host else host)
    if port is None and not has_scheme:
        port = _PORT
    return f"{parts.scheme}://{name}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
