"""The HTTP proxy of a universe: a refusal by default, mitmproxy for profiles that reach other hosts.

mitmproxy runs in an environment of its own, made by `uv tool run`: its pinned libraries clash with ours. Its
authority's key stays in the state directory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.services.config import ServicesConfig
from amplifier_digital_twin.services.request_log import RequestLog
from amplifier_foundation.files import replace_file
from amplifier_foundation.sources.install import uv_program

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

#: The newest for Python 3.11.
MITMPROXY: Final = "mitmproxy==11.0.2"
#: The first start downloads it.
_START_TIMEOUT: Final = 180.0
_END_TIMEOUT: Final = 1.0
#: What the proxy's environment inherits.
_INHERITED: Final = ("PATH", "HOME", "LANG", "TMPDIR", "UV_", "PIP_", "SSL_CERT_", "XDG_")


def refusing_app(log: RequestLog) -> ASGIApp:
    """Return the proxy of a universe that reaches no other hosts: it refuses at once, and logs what was wanted."""

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.responses import PlainTextResponse

        target = scope["raw_path"].decode("latin-1")
        host = urlsplit(target if "://" in target else f"//{target}").hostname or ""
        reason = "not in `network.allow` of the profile"
        what = f"{scope['method']} {target.partition('?')[0].rpartition('@')[2]}"
        log.record("proxy", host, what, 403, allowed=False, reason=reason)
        await PlainTextResponse(f"{host} is refused in this universe: {reason}\n", 403)(scope, receive, send)

    return refuse


@contextlib.asynccontextmanager
async def run_proxy(config: ServicesConfig, listening: socket.socket, mocks: Mapping[str, str]) -> AsyncIterator[None]:
    """Run mitmproxy on a listening socket, with its authority in `ca-bundle.pem`; `mocks` are names and addresses.

    Raises TwinError (`proxy_failed`).
    """
    folder = config.state / "proxy"
    folder.mkdir(parents=True, exist_ok=True)
    rules = folder / "rules.json"
    wanted = [(rewrite.match, rewrite.target) for rewrite in config.rewrites]
    wanted += [(domain, f"mock:{mock.name}") for mock in config.mocks for domain in mock.domains]
    targets = {f"mock:{name}": address for name, address in mocks.items()}
    content: dict[str, Any] = {"log": str(config.log), "allow": config.hosts}
    content["rules"] = [
        {"match": match, "target": targets.get(target, target), "is_mock": target in targets}
        for match, target in wanted
    ]
    replace_file(rules, json.dumps(content).encode())
    ready, output = folder / "ready", folder / "mitmproxy.log"
    ready.unlink(missing_ok=True)
    trusted = _trusted_authorities()
    options = {"confdir": str(folder), "ssl_verify_upstream_trusted_ca": str(trusted), "server": "false"}
    options |= {"connection_strategy": "lazy", "stream_large_bodies": "1m", "termlog_verbosity": "warn"}
    command = [uv_program(), "tool", "run", "--quiet", "--python", sys.executable, "--from", MITMPROXY, "mitmdump"]
    command += ["-q", "-s", str(Path(__file__).with_name("mitmproxy_addon.py"))]
    command += [word for name, value in options.items() for word in ("--set", f"{name}={value}")]
    environment = {name: value for name, value in os.environ.items() if name.startswith(_INHERITED)}
    environment |= {"TWIN_PROXY": str(rules), "TWIN_PROXY_FD": str(listening.fileno())}
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command,
            # Its end tells mitmproxy that this process has ended, however it did.
            stdin=asyncio.subprocess.PIPE,
            stdout=file,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            pass_fds=[listening.fileno()],
            start_new_session=True,
        )
    bundle = config.sockets / "ca-bundle.pem"
    try:
        async with asyncio.timeout(_START_TIMEOUT):
            while not ready.exists():
                if process.returncode is not None:
                    words = output.read_text(encoding="utf-8", errors="replace").strip()[-1500:]
                    raise _failed(words or "it ended", "run the same `uv tool run` by hand")
                await asyncio.sleep(0.05)
        authorities = [trusted, folder / "mitmproxy-ca-cert.pem"]
        replace_file(bundle, b"\n".join(path.read_bytes() for path in authorities))
        bundle.chmod(0o644)
        yield
    except TimeoutError as error:
        raise _failed(f"not ready after {_START_TIMEOUT:g} s", "check the package index of the host") from error
    finally:
        bundle.unlink(missing_ok=True)
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_TIMEOUT)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


def _trusted_authorities() -> Path:
    paths = ssl.get_default_verify_paths()
    for path in (os.environ.get("SSL_CERT_FILE"), paths.cafile, "/etc/ssl/certs/ca-certificates.crt"):
        if path and Path(path).is_file():
            return Path(path)
    raise _failed("this machine has no certificates", "install ca-certificates, or set SSL_CERT_FILE")


def _failed(why: str, remedy: str) -> TwinError:
    return TwinError("proxy_failed", f"mitmproxy cannot be started: {why}", remedy)
