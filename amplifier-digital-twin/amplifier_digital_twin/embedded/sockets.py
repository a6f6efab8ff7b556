"""Sockets of a twin's network, held by the host."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from amplifier_digital_twin.embedded import namespaces, net_helper, syscalls
from amplifier_digital_twin.embedded.passage import memory_file
from amplifier_digital_twin.errors import TwinError
from amplifier_kit.threads import in_thread

_SCRIPT = Path(__file__).with_name("net_helper.py")
_REMEDY = "Look whether the twin runs; `amplifier-digital-twin doctor` says what this machine can do."


class NamespaceSockets:
    """Make sockets in the network namespace of a process (any pid, a container's too); begun at first use.

    A socket belongs for good to the namespace it was made in. Root makes them in a thread that enters it and ends; for
    others a small process inside makes them and hands them out. Hosts are addresses, or `localhost`: no name is ever
    looked up.
    """

    def __init__(self, pid: int, python: str = sys.executable, *, is_direct: bool | None = None) -> None:
        """Take hold of the process; raise TwinError (`twin_gone`) when there is none."""
        self._pid = pid
        #: Whether threads of this process may enter; root of a container may not, and finds out when it tries.
        self._is_direct = os.geteuid() == 0 if is_direct is None else is_direct
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._turn = asyncio.Lock()
        self._is_closed = False
        try:
            self._pidfd = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise TwinError("twin_gone", f"the twin's process {pid} does not run", _REMEDY) from error
        self._complaints = memory_file("complaints", b"", is_sealed=False)

    async def listen(self, host: str, port: int) -> socket.socket:
        """Return a listening TCP socket inside, not blocking; raise OSError (in use), TwinError (no way in)."""
        address = _address(host)
        request = {"operation": "listen", "family": _family(address), "host": str(address), "port": port}
        return await self._ask(request, f"{host}:{port}")

    async def connect(self, host: str, port: int, timeout: float) -> socket.socket:
        """Return a connected TCP socket, not blocking; raise OSError (TimeoutError too), TwinError (no way in)."""
        address = _address(host)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(timeout):
            made = await self._ask({"operation": "connect", "family": _family(address)}, f"{host}:{port}")
            try:
                await loop.sock_connect(made, (str(address), port))
            except BaseException:
                made.close()
                raise
        return made

    async def close(self) -> None:
        """Give up the way in; sockets handed out stay. A second time does nothing."""
        self._is_closed = True
        async with self._turn:
            self._end()
            if self._pidfd >= 0:
                os.close(self._pidfd)
                os.close(self._complaints)
                self._pidfd = -1

    async def _ask(self, request: dict[str, Any], what: str) -> socket.socket:
        # One question at a time, and its answer is awaited even when the asker is gone: answers carry no name.
        asking = asyncio.ensure_future(self._ask_in_turn(request, what))
        try:
            return await asyncio.shield(asking)
        except asyncio.CancelledError:
            asking.add_done_callback(_throw_away)
            raise

    async def _ask_in_turn(self, request: dict[str, Any], what: str) -> socket.socket:
        async with self._turn:
            if self._is_closed:
                raise TwinError("sockets_closed", "the way into the twin's network was closed", _REMEDY)
            if self._is_direct and (made := await self._made_here(request, what)) is not None:
                return made
            if self._control is None:
                await self._begin()
            assert self._control is not None
            try:
                self._control.send(json.dumps(request).encode("ascii"))
            except OSError as error:
                self._end()
                raise TwinError("sockets_failed", f"the twin's socket maker ended: {error}", _REMEDY) from error
            answer, descriptors = await self._receive()
        if not descriptors:
            raise OSError(answer["errno"], f"{answer['message']} ({what} in the twin)")
        made = socket.socket(fileno=descriptors[0])
        made.setblocking(False)
        return made

    async def _made_here(self, request: dict[str, Any], what: str) -> socket.socket | None:
        """Return a socket that a thread of this process made; None when it may not enter, and never will."""
        try:
            return await in_thread(lambda: self._entered(request))
        except _RefusedError:
            self._is_direct = False
            return None
        except OSError as error:
            raise OSError(error.errno, f"{error.strerror} ({what} in the twin)") from error

    def _entered(self, request: dict[str, Any]) -> socket.socket:
        """Make a socket in the network of the process; this thread stays there, and must end."""
        try:
            namespace = os.open(f"/proc/{self._pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except (FileNotFoundError, ProcessLookupError) as error:
            raise self._gone() from error
        except PermissionError as error:
            raise _RefusedError from error
        try:
            # Looked at after it was opened: the number is that of no other process.
            if namespaces.has_ended(self._pidfd):
                raise self._gone()
            if os.path.samestat(os.fstat(namespace), os.stat("/proc/thread-self/ns/net")):
                raise TwinError("sockets_failed", "the process has no network of its own", _REMEDY)
            try:
                syscalls.setns(namespace, syscalls.CLONE_NEWNET)
            except PermissionError as error:
                raise _RefusedError from error
        finally:
            os.close(namespace)
        net_helper.raise_loopback()
        made = net_helper.make_socket(request)
        made.setblocking(False)
        return made

    def _gone(self) -> TwinError:
        return TwinError("twin_gone", f"the twin's process {self._pid} does not run any more", _REMEDY)

    async def _begin(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        try:
            self._process = self._start(theirs.fileno())
        except OSError as error:
            self._end()
            raise TwinError("sockets_failed", f"{self._python} cannot be started: {error}", _REMEDY) from error
        finally:
            theirs.close()
        answer, _ = await self._receive()
        if answer:
            self._end()
            raise TwinError(answer["code"], f"the twin's network cannot be entered: {answer['message']}", _REMEDY)

    def _start(self, control: int) -> subprocess.Popen[bytes]:
        # Not asyncio's own: a caller cancelled while that starts a process leaves it half begun. This takes 2 ms.
        return subprocess.Popen(
            [self._python, "-I", "-S", str(_SCRIPT), str(control), str(self._pidfd), str(self._pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._complaints,
            pass_fds=(control, self._pidfd),
            cwd="/",
            env={name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ},
            start_new_session=True,
        )

    async def _receive(self) -> tuple[dict[str, Any], list[int]]:
        assert self._control is not None
        control = self._control
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(control, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(control)
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        except ConnectionResetError:
            data, descriptors = b"", []
        if not data:
            self._end()
            complaint = os.pread(self._complaints, 4000, 0).decode("utf-8", "replace").strip()
            raise TwinError("sockets_failed", f"the twin's socket maker ended without an answer: {complaint}", _REMEDY)
        answer: dict[str, Any] = json.loads(data)
        return answer, descriptors

    def _end(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class _RefusedError(Exception):
    """Threads of this process may not enter the namespace."""


def _throw_away(asking: asyncio.Future[socket.socket]) -> None:
    if not asking.cancelled() and asking.exception() is None:
        asking.result().close()


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    if host == "localhost":
        return ipaddress.IPv4Address("127.0.0.1")
    try:
        return ipaddress.ip_address(host)
    except ValueError as error:
        raise TwinError("address_invalid", f"{host!r} is not an address inside the twin", "Use 127.0.0.1.") from error


def _family(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int:
    return int(socket.AF_INET if address.version == 4 else socket.AF_INET6)
