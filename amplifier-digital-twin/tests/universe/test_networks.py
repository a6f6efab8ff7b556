"""What a universe can reach: nothing, what its profile names, or what the host reaches; and that it is written down."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_digital_twin.errors import TwinError

CURL = "curl -sS --max-time 20"


def decisions(universe: Any) -> list[dict[str, Any]]:
    """Return what the services wrote down."""
    path = universe.place.decisions
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


async def test_without_a_network_nothing_can_be_reached(here: Any, say: Any, on_loopback: Callable[[], Any]) -> None:
    """Mode `none`: no route, no name service, no proxy, and not the host's loopback either."""
    port, heard = await on_loopback()
    async with here.launched() as universe:
        assert "Failed to connect" in await say(universe, f"{CURL} http://127.0.0.1:{port}/")
        assert "Failed to connect to 192.0.2.1" in await say(universe, f"{CURL} http://192.0.2.1/")
        assert "Could not resolve" in await say(universe, f"{CURL} https://example.com/")
        assert await say(universe, "env | grep -ic proxy") == "0\n"
        assert decisions(universe) == []
    assert heard == []


async def test_unlisted_host_is_refused_and_logged(here: Any, say: Any, on_loopback: Callable[[], Any]) -> None:
    """Mode `gateway`: what the profile does not name is refused with the key to change, told and written down."""
    port, heard = await on_loopback()
    async with here.launched(f"network: {{mode: gateway, allow: [allowed.example, 'localhost:{port}']}}") as universe:
        assert "403" in await say(universe, f"{CURL} https://unlisted.example/secret?token=1")
        assert "network.allow" in await say(universe, f"{CURL} http://unlisted.example/path?token=2")
        # Listed or not, the host's own loopback is nobody's business.
        past = f"env -u no_proxy -u NO_PROXY {CURL} -o /dev/null -w '%{{http_code}}'"
        assert await say(universe, f"{past} http://127.0.0.1:{port}/") == "403"
        assert await say(universe, f"{past} http://localhost:{port}/") == "403"
        assert "Failed to connect" in await say(universe, f"{CURL} http://127.0.0.1:{port}/")
        assert "Failed to connect to 192.0.2.1" in await say(universe, f"{CURL} --noproxy '*' http://192.0.2.1/")
        refused = [entry for entry in decisions(universe) if entry["verdict"] == "refuse"]
        assert {entry["host"] for entry in refused} == {"unlisted.example", "127.0.0.1", "localhost"}
        assert universe.refused_hosts() >= {"unlisted.example"}
        assert "unlisted.example" in (await universe.status())["refused_hosts"]
        assert "token" not in universe.place.decisions.read_text(encoding="utf-8")
    assert heard == []


async def test_network_of_the_host_must_be_asked_for(here: Any, say: Any, on_loopback: Callable[[], Any]) -> None:
    """Mode `host`: everything that the host reaches is reached, and the universe says that this is weak."""
    port, heard = await on_loopback()
    async with here.launched("network: {mode: host}") as universe:
        assert await say(universe, f"{CURL} http://127.0.0.1:{port}/hello") == "the host answers\n"
        assert any("network is the host's" in note for note in (await universe.status())["notes"])
    assert len(heard) == 1


@pytest.mark.parametrize(
    "part",
    [
        "mocks: [{name: m, run: sleep 1, port: 3000, domains: [api.example.com]}]",
        "rewrites: [{match: api.example.com, target: 'http://other.example'}]",
        "repositories: [{path: ., url: 'https://git.example/a/b'}]",
    ],
)
async def test_network_of_the_host_answers_for_nobody(here: Any, part: str) -> None:
    """What cannot be done in mode `host` is refused, never left out silently."""
    async with here.made(f"network: {{mode: host}}\n{part}") as universe:
        with pytest.raises(TwinError) as caught:
            await universe.launch()
    assert caught.value.code == "network_host"


MOCK = """
network: {mode: MODE}
mocks:
  - {name: example, run: python3 ~/echo.py 3000 example, port: 3000, domains: [api.example.com]}
  - {name: other, run: python3 ~/echo.py 3001 other, port: 3001}
rewrites:
  - {match: web.example.com/v1, target: "mock:other"}
provision: {files: [{src: echo.py, dest: ~/echo.py}]}
"""


@pytest.mark.parametrize("mode", ["none", "gateway"])
async def test_mock_answers_for_its_host_with_and_without_the_proxy(here: Any, say: Any, mode: str) -> None:
    """A client finds a mock at its public address over TLS that it trusts, whether it uses the proxy or not."""
    async with here.launched(MOCK.replace("MODE", mode)) as universe:
        for curl in (CURL, f"{CURL} --noproxy '*'", f"env -i {CURL}"):
            answer = json.loads(await say(universe, f"{curl} https://api.example.com/models?x=1"))
            assert (answer["mark"], answer["path"]) == ("example", "/models?x=1")
            answer = json.loads(await say(universe, f"{curl} http://api.example.com/plain"))
            assert (answer["mark"], answer["host"]) == ("example", "api.example.com")
        python = "import urllib.request as r; print(r.urlopen('https://api.example.com/py').read().decode())"
        assert json.loads(await say(universe, f'python3 -c "{python}"'))["path"] == "/py"
        assert "certificate" in await say(universe, f"{CURL} --cacert /dev/null https://api.example.com/")
        rewritten = [entry for entry in decisions(universe) if entry["verdict"] == "rewrite"]
        assert {entry["host"] for entry in rewritten} == {"api.example.com"}
        assert not any("x=1" in json.dumps(entry) for entry in rewritten)


async def test_rewrite_ends_at_a_boundary_of_the_path(here: Any, say: Any) -> None:
    """`/v1` is `/v1` and what is below it; `/v10` and the rest of the host are refused."""
    async with here.launched(MOCK.replace("MODE", "gateway")) as universe:
        for path in ("/v1", "/v1/", "/v1/chat", "/v1?q=1"):
            answer = json.loads(await say(universe, f"{CURL} https://web.example.com{path}"))
            assert (answer["mark"], answer["path"]) == ("other", path)
        for path in ("/v10", "/", "/v2/v1", "/v1/../secret"):
            for curl in (CURL, f"{CURL} --noproxy '*'"):
                command = f"{curl} --path-as-is -o /dev/null -w '%{{http_code}}' https://web.example.com{path}"
                assert await say(universe, command) in ("403", "400"), path


async def test_mock_that_needs_what_is_installed_starts_after_it(here: Any, say: Any) -> None:
    """Mocks are up for the commands of `provision` where they can be, and in any case after them."""
    text = """
    network: {mode: none}
    mocks:
      - {name: early, run: python3 ~/echo.py 3000 early, port: 3000, domains: [early.example.com]}
      - {name: late, run: sh ~/late.sh, port: 3001, domains: [late.example.com]}
    provision:
      files: [{src: echo.py, dest: ~/echo.py}]
      commands: ["COMMAND"]
    """
    ask = "curl -sS --fail https://early.example.com/ > ~/seen; "
    late = "echo 'exec python3 ~/echo.py 3001 late' > ~/late.sh"
    early_only = text.replace("      - {name: late, run: sh ~/late.sh, port: 3001, domains: [late.example.com]}\n", "")
    async with here.launched(early_only.replace("COMMAND", f"set -e; {ask}")) as universe:
        assert json.loads(await say(universe, "cat ~/seen"))["mark"] == "early"
    async with here.launched(text.replace("COMMAND", late)) as universe:
        for name in ("early", "late"):
            assert json.loads(await say(universe, f"{CURL} https://{name}.example.com/"))["mark"] == name


async def test_mock_that_does_not_come_up_fails_the_launch(here: Any) -> None:
    """A mock that ends is told with the port it should have had, and its words are in the log."""
    text = "network: {mode: none}\nmocks: [{name: broken, run: 'echo no such luck >&2; exit 3', port: 3000}]"
    async with here.made(text) as universe:
        with pytest.raises(TwinError, match="`broken` does not answer on port 3000") as caught:
            await universe.launch()
        log = universe.place.log.read_text(encoding="utf-8")
    assert caught.value.code == "mock_failed"
    assert "no such luck" in log
    assert "no such luck" in (here.evidence / "log.jsonl").read_text(encoding="utf-8")
