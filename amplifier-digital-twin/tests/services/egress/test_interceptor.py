"""Hosts that a profile answers for: their TLS, their routes, and who may ask for what on which connection."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from amplifier_digital_twin.profile.model import Mock, Rewrite
from amplifier_digital_twin.services.authority import Authority


def _mock(port: int) -> list[Mock]:
    return [Mock("example", "true", port, ("api.test",))]


def _tls(world: Any) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(world.ca_file))


async def test_mock_answers_for_a_public_name_through_the_proxy(start: Any, serve: Any, run: Any) -> None:
    """A request to a mocked host goes to the mock inside, under the name that was asked for."""
    server = await serve()
    world = await start(mocks=_mock(server.port))
    url = "https://api.test/v1/x?key=secret"
    code, out, err = await run("curl", "-sS", "--cacert", str(world.ca_file), "-x", world.proxy, "-d", "body", url)
    assert (code, out, err) == (0, "hello", "")
    assert server.heads[0].startswith("POST /v1/x?key=secret HTTP/1.1\r\nHost: api.test\r\n")
    assert server.bodies == [b"body"]
    [line] = world.log()
    assert (line["verdict"], line["host"], line["port"], line["method"], line["path"], line["reason"]) == (
        "rewrite",
        "api.test",
        443,
        "POST",
        "/v1/x",
        "goes to mock:example",
    )


@pytest.mark.parametrize("scheme", ["https", "http"])
async def test_program_without_a_proxy_reaches_the_interceptor(start: Any, serve: Any, run: Any, scheme: str) -> None:
    """A program that knows no proxy finds the mock where the name resolves to, encrypted or not."""
    server = await serve()
    world = await start(mocks=_mock(server.port))
    port = {"https": 443, "http": 80}[scheme]
    argv = ["curl", "-sS", "--cacert", str(world.ca_file)]
    code, out, err = await run(
        *argv, "--connect-to", f"api.test:{port}:127.0.0.1:{world.intercepted_port}", f"{scheme}://api.test/x"
    )
    assert (code, out, err) == (0, "hello", "")
    assert world.verdicts() == [("rewrite", "api.test")]
    assert world.log()[0]["port"] == port


async def test_git_trusts_the_universe_for_a_mocked_host(start: Any, serve: Any, run: Any) -> None:
    """git, with a TLS library of its own, accepts the universe's certificates and their constraints."""
    server = await serve()
    world = await start(mocks=_mock(server.port))
    environ = {"https_proxy": world.proxy, "GIT_SSL_CAINFO": str(world.ca_file), "GIT_TERMINAL_PROMPT": "0"}
    _, _, err = await run("git", "ls-remote", "https://api.test/repo", **environ)
    assert "certificate" not in err.lower()
    assert server.heads[0].startswith("GET /repo/info/refs?service=git-upload-pack HTTP/1.1\r\n")


async def test_rewrite_to_a_url_replaces_what_matched(
    start: Any, serve: Any, run: Any, outer: tuple[Authority, Path]
) -> None:
    """A rewritten path goes to an https server that the host trusts, under that server's own name."""
    server = await serve(context=outer[0].context_for("real.test"))
    target = f"https://real.test:{server.port}/base"
    world = await start(
        rewrites=[Rewrite("api.test/v1", target)], private=["real.test"], names={"real.test": ["127.0.0.1"]}
    )
    argv = ["curl", "-sS", "--cacert", str(world.ca_file), "-x", world.proxy]
    assert (await run(*argv, "https://api.test/v1/x?q=1"))[1] == "hello"
    assert server.heads[0].startswith(f"GET /base/x?q=1 HTTP/1.1\r\nHost: real.test:{server.port}\r\n")
    _, out, _ = await run(*argv, "https://api.test/v10/x", "-w", "%{http_code}")
    assert out.endswith("403")
    assert world.verdicts() == [("rewrite", "api.test"), ("refuse", "api.test")]


async def test_rewrite_target_with_an_untrusted_certificate_is_an_error(start: Any, serve: Any, run: Any) -> None:
    """The host's own trust decides about rewritten targets: a stranger's certificate gives 502."""
    stranger = Authority.create({"real.test"})
    server = await serve(context=stranger.context_for("real.test"))
    rewrite = Rewrite("api.test", f"https://real.test:{server.port}")
    world = await start(rewrites=[rewrite], private=["real.test"], names={"real.test": ["127.0.0.1"]})
    url = "http://api.test/x"
    _, out, _ = await run("curl", "-sS", "-x", world.proxy, url, "-w", "%{http_code}")
    assert "not trusted by the host" in out
    assert out.endswith("502")
    assert server.heads == []
    assert world.verdicts() == [("error", "api.test")]


async def test_rewrite_target_in_a_private_network_is_refused(start: Any, serve: Any, run: Any) -> None:
    """Naming a target does not open the host's own network to the universe."""
    server = await serve()
    world = await start(rewrites=[Rewrite("api.test", f"http://127.0.0.1:{server.port}")])
    _, out, _ = await run("curl", "-sS", "-x", world.proxy, "http://api.test/x", "-w", "%{http_code}")
    assert out.endswith("403")
    assert server.connections == 0
    assert world.verdicts() == [("refuse", "api.test")]


async def test_unmatched_path_of_an_allowed_host_goes_to_the_real_one(
    start: Any, serve: Any, run: Any, outer: tuple[Authority, Path]
) -> None:
    """Where only a path is rewritten, the rest of the host is reached when the profile allows it."""
    mock, real = await serve(), await serve(context=outer[0].context_for("api.test"))
    world = await start(
        [f"api.test:{real.port}"],
        rewrites=[Rewrite(f"api.test:{real.port}/v1", "mock:m")],
        mocks=[Mock("m", "true", mock.port)],
        private=["api.test"],
        names={"api.test": ["127.0.0.1"]},
    )
    url = f"https://api.test:{real.port}"
    argv = ["curl", "-sS", "--cacert", str(world.ca_file), "-x", world.proxy]
    assert (await run(*argv, f"{url}/v1", f"{url}/v2"))[1] == "hellohello"
    assert [head.split()[1] for head in (*mock.heads, *real.heads)] == ["/v1", "/v2"]
    assert [verdict for verdict, _ in world.verdicts()] == ["rewrite", "allow"]


async def test_handshake_for_another_host_is_refused(start: Any, serve: Any, until: Any) -> None:
    """In a tunnel to one intercepted host, no other one is played; nor is one the profile does not answer for."""
    server = await serve()
    world = await start(mocks=[Mock("m", "true", server.port, ("api.test", "other.test"))])
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
        await writer.start_tls(_tls(world), server_hostname="other.test")
    writer.transport.abort()
    for name in ("evil.test", None):
        context = _tls(world)
        context.check_hostname = False
        with pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"):
            await asyncio.open_connection("127.0.0.1", world.intercepted_port, ssl=context, server_hostname=name or "")
    await until(lambda: len(world.log()) == 3)
    assert world.verdicts() == [("refuse", "other.test"), ("refuse", "evil.test"), ("refuse", "")]


async def test_client_without_server_name_gets_the_host_of_its_tunnel(start: Any, serve: Any) -> None:
    """Where CONNECT said which host is meant, a handshake without a name is for that host."""
    server = await serve()
    world = await start(mocks=_mock(server.port))
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    writer.write(b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    context = _tls(world)
    context.check_hostname = False
    await writer.start_tls(context, server_hostname="")
    certificate: Any = writer.get_extra_info("peercert")
    assert certificate["subjectAltName"] == (("DNS", "api.test"),)
    writer.write(b"GET /x HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).endswith(b"hello")
    writer.close()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /x HTTP/1.1\r\nHost: other.test\r\n", 421),
        (b"GET /x HTTP/1.1\r\nHost: api.test:8443\r\n", 421),
        (b"GET https://other.test/x HTTP/1.1\r\nHost: other.test\r\n", 421),
        (b"GET http://api.test/x HTTP/1.1\r\nHost: api.test\r\n", 421),
        (b"GET https://api.test/x HTTP/1.1\r\nHost: API.test.:443\r\n", 200),
        (b"GET /v1/../x HTTP/1.1\r\nHost: api.test\r\n", 400),
        (b"GET /v1/%2e%2E/x HTTP/1.1\r\nHost: api.test\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\nHost: api.test\r\n", 400),
        (b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n", 405),
        (b"GET /x HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n", 501),
        (b"GET /x HTTP/1.1\r\nHost: api.test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n", 200),
    ],
)
async def test_request_must_be_for_the_host_of_its_connection(start: Any, serve: Any, head: bytes, status: int) -> None:
    """Server name, Host header and URL agree, or the request is answered 421 and reaches nobody."""
    server = await serve()
    world = await start(mocks=[Mock("m", "true", server.port, ("api.test", "other.test"))])
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", world.intercepted_port, ssl=_tls(world), server_hostname="api.test"
    )
    writer.write(head + b"\r\n")
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.split()[1] == str(status).encode()
    writer.close()
    assert len(server.heads) == (status == 200)
    assert [line["verdict"] for line in world.log()] == ["rewrite" if status == 200 else "refuse"]


async def test_keep_alive_serves_many_requests_each_written_down_once(start: Any, serve: Any, run: Any) -> None:
    """One connection carries request after request: answered, refused, answered."""
    server = await serve()
    world = await start(rewrites=[Rewrite("api.test/ok", "mock:m")], mocks=[Mock("m", "true", server.port)])
    argv = ["curl", "-sSv", "--cacert", str(world.ca_file), "-x", world.proxy]
    code, out, err = await run(*argv, *(f"https://api.test/{path}" for path in ("ok/1", "no", "ok/2")))
    assert code == 0
    assert out.count("hello") == 2
    assert err.count("Re-using existing connection") == 2
    assert [verdict for verdict, _ in world.verdicts()] == ["rewrite", "refuse", "rewrite"]


async def test_client_that_does_not_trust_the_universe_is_written_down(start: Any, serve: Any, run: Any) -> None:
    """A program that was not told of the universe's certificates fails, and the log says why."""
    server = await serve()
    world = await start(mocks=_mock(server.port))
    code, _, _ = await run("curl", "-sS", "-x", world.proxy, "https://api.test/")
    assert code == 60
    [line] = world.log()
    assert (line["verdict"], line["host"]) == ("error", "api.test")
    assert "trust" in line["reason"]


async def test_large_bodies_pass_encrypted(start: Any, serve: Any, run: Any, tmp_path: Path) -> None:
    """Through the universe's own TLS, bodies far larger than any buffer arrive whole both ways."""

    async def echo(server: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + server.bodies[-1])
        await writer.drain()

    server = await serve(echo)
    world = await start(mocks=_mock(server.port))
    file, target = tmp_path / "body", tmp_path / "answer"
    file.write_bytes(bytes(range(256)) * 30_000)
    argv = ["curl", "-sS", "--cacert", str(world.ca_file), "-x", world.proxy, "--data-binary", f"@{file}"]
    assert (await run(*argv, "-o", str(target), "https://api.test/x"))[0] == 0
    assert target.read_bytes() == file.read_bytes()
