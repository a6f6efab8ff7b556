"""Real servers and proxies on this machine, a resolver that knows them by name, and the tool that asks them."""

from __future__ import annotations

import ipaddress
import socket
import socketserver
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from amplifier_core.testing import EventRecorder, MockCoordinator
from amplifier_kit.config import read_config
from amplifier_kit.guard.files.workspace import FileAccess, FileConfig
from amplifier_kit.guard.ssrf import Guard
from amplifier_module_tool_web import extract
from amplifier_module_tool_web.client import Client
from amplifier_module_tool_web.config import WebConfig
from amplifier_module_tool_web.domains import Domains
from amplifier_module_tool_web.fetch import WebFetchTool
from amplifier_module_tool_web.search import WebSearchTool

Handle = Callable[[BaseHTTPRequestHandler], None]


class _QuietServer(ThreadingHTTPServer):
    """Says nothing of clients that hang up."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 32

    def handle_error(self, request: object, client_address: object) -> None:
        pass


class Site:
    """A web server: what it answers is set by path; everything asked is remembered."""

    def __init__(self, address: str, port: int, authority: Authority | None) -> None:
        self.answers: dict[str, Handle] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                owner.asked.append(self.path)
                owner.headers.append(dict(self.headers))
                owner.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))))
                owner.answers.get(self.path, owner.answers.get(self.path.partition("?")[0], missing))(self)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = _QuietServer((address, port), Handler)
        self.port = int(self._server.server_address[1])
        self.scheme = "http" if authority is None else "https"
        if authority is not None:
            self._server.socket = authority.context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def url(self, path: str = "/", host: str = "site.example") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def text(self, path: str, body: str | bytes, content_type: str = "text/plain; charset=utf-8", **more: str) -> None:
        """Answer with a body."""
        data = body.encode() if isinstance(body, str) else body
        headers = {"Content-Type": content_type, **{name.replace("_", "-"): value for name, value in more.items()}}
        self.answers[path] = lambda handler: send(handler, 200, headers, data)

    def page(self, path: str, body: str) -> None:
        """Answer with an HTML page."""
        self.text(path, body, "text/html; charset=utf-8")

    def redirect(self, path: str, location: str, status: int = 302) -> None:
        """Answer with a redirect."""
        self.answers[path] = lambda handler: send(handler, status, {"Location": location}, b"")

    def status(self, path: str, status: int, **headers: str) -> None:
        """Answer with a status."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = lambda handler: send(handler, status, named, b"no")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def send(handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes) -> None:
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body))} | dict(headers)).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def missing(handler: BaseHTTPRequestHandler) -> None:
    send(handler, 404, {}, b"")


class Authority:
    """A certificate authority that nobody knows, and a server's certificate that it signed."""

    def __init__(self, folder: Path) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        def certificate(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
            now = datetime.now(UTC)
            return (
                x509.CertificateBuilder()
                .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
                .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")]))
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
        names = [x509.DNSName("site.example"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
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
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(both)


class Proxy:
    """A proxy that leads every host to one port of this machine, and remembers what it was asked for."""

    def __init__(self, port: int) -> None:
        self.asked: list[str] = []
        self.headers: list[bytes] = []
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            timeout: ClassVar[float] = 30

            def handle(self) -> None:
                first = self.rfile.readline().decode("latin-1")
                owner.asked.append(first.strip())
                header = [line for line in iter(self.rfile.readline, b"\r\n") if line]
                owner.headers.extend(header)
                method, target, version = first.split()
                with socket.create_connection(("127.0.0.1", port), timeout=30) as there:
                    if method == "CONNECT":
                        self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                        _pass_on(self.connection, there)
                    else:
                        path = "/" + target.partition("://")[2].partition("/")[2]
                        kept = [line for line in header if not line.lower().startswith((b"connection", b"proxy"))]
                        lines = [f"{method} {path} {version}\r\n".encode(), *kept, b"Connection: close\r\n\r\n"]
                        there.sendall(b"".join(lines))
                        while data := there.recv(65536):
                            self.wfile.write(data)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                pass

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until one side has nothing more."""
    import selectors

    with selectors.DefaultSelector() as selector:
        selector.register(one, selectors.EVENT_READ, other)
        selector.register(other, selectors.EVENT_READ, one)
        while True:
            for key, _ in selector.select(30):
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not data:
                    return
                key.data.sendall(data)


class World:
    """A session's coordinator with the tool in it; names lead where `names` says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.coordinator = MockCoordinator()
        self.coordinator.register_capability("session.working_dir", str(folder))
        self.events = EventRecorder()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.verdict: str | tuple[str, str] = "allow"
        self.coordinator.register_policy("test", self._decide)
        #: Answers of the resolver, one after the other; the last one stays.
        self.names: dict[str, list[list[str]]] = {}
        self.resolved: list[str] = []
        #: Addresses that count as the internet's.
        self.internet = {"127.0.0.1"}
        self.environ: dict[str, str] = {}
        self.clients: list[Client] = []

    def _decide(self, action: str, details: dict[str, Any]) -> Any:
        self.asked.append((action, details))
        return self.verdict

    async def _resolve(self, host: str) -> Sequence[str]:
        self.resolved.append(host)
        if host not in self.names:
            raise OSError("not known")
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def tool(self, **config: Any) -> WebFetchTool:
        """Return the tool, with a guard for which this machine's address is one of the internet's."""
        settings = read_config(WebConfig, config, module="tool-web")
        domains = Domains(settings.allowed_domains, settings.blocked_domains)
        access = FileAccess.of(FileConfig(working_dir=settings.working_dir), self.coordinator)
        client = self.client(settings, domains)
        return WebFetchTool(self.coordinator, settings, access, domains, lambda: client)

    def search_tool(self, **config: Any) -> WebSearchTool:
        """Return the search tool, with the same client; it has chosen its engine."""
        settings = read_config(WebConfig, {"timeout": 60, **config}, module="tool-web")
        domains = Domains(settings.allowed_domains, settings.blocked_domains)
        tool = WebSearchTool(self.coordinator, settings, domains, lambda: self.client(settings, domains))
        assert tool.choose_engine() == ""
        return tool

    def client(self, settings: WebConfig, domains: Domains) -> Client:
        """Return a client of this world."""
        guard = Guard(
            settings.private_hosts,
            refuse=domains.is_refused,
            resolve=self._resolve,
            judge=lambda address: address in self.internet,
        )
        client = Client(guard, self.environ)
        self.clients.append(client)
        return client

    async def fetch(self, url: str, config: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """Return the result of one call."""
        return await self.tool(**{"timeout": 60, **(config or {})}).execute({"url": url, **more})


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """Return a world in which `site.example` and `other.example` are this machine, however slow it is."""
    monkeypatch.setattr(extract, "DEADLINE", 60)
    folder = tmp_path / "project"
    folder.mkdir()
    made = World(folder)
    made.names = {"site.example": [["127.0.0.1"]], "other.example": [["127.0.0.1"]]}
    for event in ("tool:progress", "artifact:write", "approval:denied"):
        made.coordinator.hooks.register(event, made.events.record, name="recorder")
    yield made
    for client in made.clients:
        await client.aclose()


@pytest.fixture
def make_site() -> Iterator[Callable[..., Site]]:
    """Give `make_site(address, port, authority)`: a web server."""
    with ExitStack() as stack:

        def make(address: str = "127.0.0.1", port: int = 0, authority: Authority | None = None) -> Site:
            site = Site(address, port, authority)
            stack.callback(site.close)
            return site

        yield make


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """Return a web server."""
    return make_site()


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Return a private certificate authority."""
    return Authority(tmp_path)


@pytest.fixture
def secure_site(make_site: Callable[..., Site], authority: Authority) -> Site:
    """Return an https server whose certificate the private authority signed."""
    return make_site(authority=authority)


@pytest.fixture
def proxy_to() -> Iterator[Callable[[int], Proxy]]:
    """Give `proxy_to(port)`: a proxy that leads everything to that port."""
    with ExitStack() as stack:

        def make(port: int) -> Proxy:
            proxy = Proxy(port)
            stack.callback(proxy.close)
            return proxy

        yield make
