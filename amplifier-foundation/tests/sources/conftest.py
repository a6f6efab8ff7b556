"""Real repositories, a home of its own and an environment without anybody's git settings for each test."""

from __future__ import annotations

import ipaddress
import os
import selectors
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sources import download, git

BUNDLE = "---\nbundle:\n  name: sample\n---\nHello.\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Return a home that does not exist yet."""
    return Home(tmp_path / "home")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Return an environment in which git reads no settings of this machine, and no proxy or CA is named."""
    ignored = ("proxy", "ssl_cert", "requests_ca", "git_")
    kept = {name: value for name, value in os.environ.items() if not any(part in name.lower() for part in ignored)}
    return kept | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(tmp_path / "user"),
    }


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(git, "RETRY_PAUSES", (0.0, 0.0))
    monkeypatch.setattr(download, "RETRY_PAUSES", (0.0, 0.0))


class Repository:
    """A real git repository to fetch from."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        author = {f"GIT_{who}_{what}": "t@e" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        self._environ = {**environ, **author}
        folder.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit({"bundle.md": BUNDLE})

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self._environ, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, files: Mapping[str, str]) -> str:
        for name, content in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message=change")
        return self.git("rev-parse", "HEAD")

    @property
    def uri(self) -> str:
        return f"git+file://{self.folder}"


@pytest.fixture
def repository(tmp_path: Path, environ: dict[str, str]) -> Repository:
    """Return a repository with one commit on `main` that holds a bundle."""
    return Repository(tmp_path / "upstream" / "sample", environ)


@pytest.fixture
def new_repository(environ: dict[str, str]) -> Callable[[Path], Repository]:
    """Return what makes a repository like that in a folder."""
    return lambda folder: Repository(folder, environ)


@pytest.fixture
def fake_git(tmp_path: Path, environ: dict[str, str]) -> Callable[[str], Path]:
    """Return what puts a shell script in git's place; its folder is returned, each call is a line of `calls` there."""

    def install(script: str) -> Path:
        folder = tmp_path / "fake"
        folder.mkdir()
        program = folder / "git"
        program.write_text(f'#!/bin/sh\nHERE="{folder}"\necho "$*" >> "$HERE/calls"\n{script}\n', encoding="utf-8")
        program.chmod(0o755)
        environ["PATH"] = f"{folder}{os.pathsep}{environ['PATH']}"
        return folder

    return install


class Server:
    """A web server on this machine: what it answers can be set by path, else it hands out the files of a folder."""

    def __init__(self, folder: Path, authority: Authority | None) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        #: Answers by path, in turn; the last one stays. Each is a status, headers, and a body.
        self.answers: dict[str, list[tuple[int, dict[str, str], bytes]]] = {}
        #: The paths that were asked for.
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked.append(self.path)
                owner.headers.append(dict(self.headers))
                status, headers, body = owner.answer(self.path)
                self.send_response(status)
                for name, value in ({"Content-Length": str(len(body))} | headers).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self.scheme = "http"
        if authority is not None:
            self.scheme = "https"
            self._server.socket = authority.context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{self.scheme}://127.0.0.1:{self.port}"

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        answers = self.answers.get(path)
        if answers:
            return answers.pop(0) if len(answers) > 1 else answers[0]
        file = self.folder / unquote(path.partition("?")[0].lstrip("/"))
        return (200, {}, file.read_bytes()) if file.is_file() else (404, {}, b"")

    @contextmanager
    def running(self) -> Iterator[Server]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)


class _QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that hang up, as those do that do not trust its certificate."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class Authority:
    """A certificate authority that nobody knows, and a server's certificate that it signed."""

    def __init__(self, folder: Path) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        def certificate(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
            now = datetime.now(UTC)
            return (
                x509.CertificateBuilder()
                .subject_name(name(subject))
                .issuer_name(name("Test CA"))
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(days=1))
                .not_valid_after(now + timedelta(days=1))
            )

        root, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
        identifier = x509.SubjectKeyIdentifier.from_public_key(root.public_key())
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        own = certificate("Test CA", root).add_extension(x509.BasicConstraints(True, None), critical=True)
        own = own.add_extension(identifier, critical=False).add_extension(usage, critical=True)
        names = [x509.DNSName("files.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        signed = certificate("server", key).add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = signed.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        #: The file that makes it known.
        self.file = folder / "ca.pem"
        self.file.write_bytes(own.sign(root, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        both = folder / "server.pem"
        both.write_bytes(
            signed.sign(root, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(both)


class Proxy:
    """A proxy that leads every host to one server on this machine, and remembers what it was asked for."""

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            timeout: ClassVar[float] = 30

            def handle(self) -> None:
                first = self.rfile.readline().decode("latin-1")
                owner.asked.append(first.strip())
                header = [line for line in iter(self.rfile.readline, b"\r\n") if line]
                method, target, version = first.split()
                with socket.create_connection(("127.0.0.1", port), timeout=30) as there:
                    if method == "CONNECT":
                        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                        _pass_on(self.connection, there)
                    else:
                        path = "/" + target.partition("://")[2].partition("/")[2]
                        lines = [f"{method} {path} {version}\r\n".encode(), *header, b"Connection: close\r\n\r\n"]
                        there.sendall(b"".join(lines))
                        while data := there.recv(65536):
                            self.wfile.write(data)

        self._server = _QuietProxy(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Proxy]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(10)


class _QuietProxy(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        pass


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until one side has nothing more."""
    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select(30):
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not data:
                    return
                key.data.sendall(data)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return a private certificate authority."""
    return Authority(tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """Return a web server that hands out the folder `www`."""
    with Server(tmp_path / "www", None).running() as running:
        yield running


@pytest.fixture
def secure_server(tmp_path: Path, authority: Authority) -> Iterator[Server]:
    """Return an https server that hands out the folder `www`, with a certificate of the private authority."""
    with Server(tmp_path / "www", authority).running() as running:
        yield running


@pytest.fixture
def proxy_to() -> Iterator[Callable[[Server], Proxy]]:
    """Return what starts a proxy in front of a server."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield lambda server: stack.enter_context(Proxy(server.port).running())
