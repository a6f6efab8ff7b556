"""Servers run in the sandbox: they write to the project alone and reach nobody, unless their entry says otherwise."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.sandbox.sandbox import sandbox_of
from amplifier_module_tool_mcp import sandbox

Session = Any
Odd = Callable[..., dict[str, Any]]


@pytest.fixture
def _sandboxed(session: Session) -> None:
    """Skip where there is no sandbox."""
    status = sandbox_of(session.coordinator, {}).status
    if not status.is_active:
        pytest.skip(f"there is no sandbox on this machine: {status.reason}")


@pytest.mark.usefixtures("_sandboxed")
async def test_inside(session: Session, odd: Odd, project: Path, tmp_path: Path) -> None:
    """A server writes to the project, not beside it; the result names the sandbox, and an event tells it."""
    await session.open({"odd": odd()})
    assert (await session.told("connected"))["sandbox"] == "active"
    assert (await session.call("odd_write", path="inside.txt")).success
    assert (project / "inside.txt").read_text() == "written"
    await session.call("odd_write", path=str(tmp_path / "outside.txt"))
    assert not (tmp_path / "outside.txt").exists()
    for path in ("/usr/made-by-a-test", ".amplifier/settings.yaml"):
        refused = await session.call("odd_write", path=path)
        assert not refused.success
        assert "The sandbox blocked it" in refused.output["content"]
        assert not (project / path).exists()
    blocked = [data for event, data in session._recorder.events if event == "sandbox:blocked"]
    assert [each["kind"] for each in blocked] == ["filesystem", "filesystem"]


@pytest.mark.usefixtures("_sandboxed")
async def test_nobody_is_reached(session: Session, odd: Odd) -> None:
    """No server of the host is there for one that runs inside, by port or abstract name, unless its entry says so."""
    await session.open({"odd": odd(), "free": odd(sandbox={"network": True})})
    with socket.create_server(("127.0.0.1", 0)) as web:
        port = {"address": list(web.getsockname())}
        assert (await session.call("free_reach", **port)).output["content"] == "reached"
        refused = await session.call("odd_reach", **port)
        assert not refused.success
        assert "Connection refused" in refused.output["content"]
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(f"\0door-{os.urandom(8).hex()}")
        local.listen()
        name = {"address": local.getsockname().decode(), "family": "AF_UNIX"}
        assert (await session.call("free_reach", **name)).output["content"] == "reached"
        assert not (await session.call("odd_reach", **name)).success


@pytest.mark.usefixtures("_sandboxed")
async def test_a_socket_in_the_project(session: Session, odd: Odd, project: Path) -> None:
    """One that somebody listens on when the server starts is covered for it."""
    door = project / "d"
    if len(str(door)) > 107:
        pytest.skip("the folder of the test is too deep for the name of a socket")
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(door))
        local.listen()
        await session.open({"odd": odd(), "free": odd(sandbox="off")})
        name = {"address": "d", "family": "AF_UNIX"}
        assert (await session.call("free_reach", **name)).output["content"] == "reached"
        assert not (await session.call("odd_reach", **name)).success


@pytest.mark.usefixtures("_sandboxed")
async def test_the_environment(session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that looks for a variable of the host does not find it."""
    monkeypatch.setenv("ODD_KEY", "a-secret-value")
    await session.open({"odd": odd()})
    assert (await session.call("odd_secret")).output["content"].startswith("None")


@pytest.mark.usefixtures("_sandboxed")
async def test_the_status_is_told(session: Session, odd: Odd) -> None:
    """Whether servers run in the sandbox is said once, at the start."""
    await session.open({"odd": odd(), "other": odd()})
    await session.told("connected", 2)
    told = [data for event, data in session._recorder.events if event == "sandbox:status"]
    assert [(each["tool"], each["status"]) for each in told] == [("tool-mcp", "active")]


@pytest.mark.usefixtures("_sandboxed")
async def test_what_the_sandbox_stops(session: Session, odd: Odd) -> None:
    """A server that ends because it has no network says so, with the way to allow it."""
    await session.open({"odd": odd("exit", "Temporary failure in name resolution")}, retry={"attempts": 1})
    told = await session.told("failed")
    assert "The sandbox blocked it" in told["advice"]
    assert "the entry of the server 'odd'" in told["advice"]
    [blocked] = [data for event, data in session._recorder.events if event == "sandbox:blocked"]
    assert (blocked["tool"], blocked["kind"]) == ("tool-mcp", "network")


async def test_outside(session: Session, odd: Odd, tmp_path: Path) -> None:
    """An entry may switch the sandbox off."""
    await session.open({"odd": odd(sandbox="off")})
    assert (await session.told("connected"))["sandbox"] == "off"
    assert (await session.call("odd_write", path=str(tmp_path / "outside.txt"))).success


async def test_required(session: Session, odd: Odd, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the session requires a sandbox and none can be had, no server is started, whatever its entry says."""
    monkeypatch.setenv("PATH", "/nonexistent")
    session.coordinator.config["session"]["sandbox"] = "required"
    await session.open({"odd": odd(sandbox="off")}, retry={"attempts": 3})
    told = await session.told("failed")
    assert (told["code"], told["retry_in"]) == ("sandbox_required", None)
    [blocked] = [data for event, data in session._recorder.events if event == "sandbox:blocked"]
    assert blocked["kind"] == "required"


@pytest.mark.usefixtures("_sandboxed")
async def test_a_folder_outside_where_the_sandbox_is_required(
    make_session: Callable[[], Session], odd: Odd, project: Path, tmp_path: Path
) -> None:
    """An entry opens no folder by its `cwd` where the session requires the sandbox; the session's settings do."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (project / "inner").mkdir()
    (project / "link").symlink_to(outside)
    entry = odd()
    entry["args"] = [str(project / entry["args"][0]), *entry["args"][1:]]
    opened = {"mode": "required", "readable": [str(outside)]}
    for box, cwd, is_shown in (
        ("required", str(outside), False),
        ("required", "link", False),
        ("required", "../outside", False),
        ("required", "inner", True),
        (opened, str(outside), True),
    ):
        session = make_session()
        session.coordinator.config["session"]["sandbox"] = box
        await session.open({"odd": {**entry, "cwd": cwd, "sandbox": {"readable": [cwd]}}}, retry={"attempts": 1})
        if is_shown:
            await session.told("connected")
        else:
            told = await session.told("failed")
            assert (told["code"], "session.sandbox.readable" in told["advice"]) == ("sandbox_required", True)


async def test_wrong_settings(session: Session, odd: Odd) -> None:
    """A sandbox that is written wrongly is not taken for none."""
    await session.open({"odd": odd(sandbox={"netwerk": True})})
    told = await session.told("failed")
    assert (told["code"], told["retry_in"]) == ("sandbox_failed", None)
    assert "netwerk" in told["reason"]
    assert sandbox.ServerSandbox(session.coordinator, None, session.connection().spec).status == "unknown"


@pytest.mark.parametrize("box", ["off", "auto"])
async def test_a_program_of_the_project_is_started_by_its_path_only(
    make_session: Callable[[], Session], project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, box: str
) -> None:
    """A name is looked up on PATH outside of the project, by us and by the server; a path is taken as it is."""
    planted, tools = project / "bin", tmp_path / "tools"
    for folder, text in ((planted, f"touch '{project}/planted'"), (tools, f"exec '{sys.executable}' \"$@\"")):
        folder.mkdir()
        (folder / "runner").write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / "runner").chmod(0o755)
    monkeypatch.setenv("PATH", f".:bin:{planted}:{tools}:{os.environ['PATH']}")
    args = ["servers/odd.py", "plain"]
    session = make_session()
    await session.open({"odd": {"command": "runner", "args": args, "sandbox": box}}, retry={"attempts": 1})
    assert (await session.call("odd_echo")).success
    assert not (project / "planted").exists()
    monkeypatch.setenv("PATH", f".:bin:{planted}:/usr/bin:/bin")
    named, written = make_session(), make_session()
    await named.open({"odd": {"command": "runner", "args": args, "sandbox": box}}, retry={"attempts": 1})
    told = await named.told("failed")
    assert told["code"] == "command_not_found"
    assert "Write its path" in told["advice"]
    assert not (project / "planted").exists()
    await written.open({"odd": {"command": "bin/runner", "args": args, "sandbox": box}}, retry={"attempts": 1})
    await written.told("failed")
    assert (project / "planted").exists()


# -- what a server's command needs --


@pytest.mark.usefixtures("_sandboxed")
async def test_a_server_that_is_installed_elsewhere(session: Session, odd: Odd, tmp_path: Path) -> None:
    """A script outside of the project runs, with its interpreter and its package, and nothing beside the package."""
    package = tmp_path / "elsewhere" / "package"
    shutil.copytree(session.project / "servers", package)
    (package / "pyproject.toml").touch()
    (package.parent / "diary").write_text("secret words")
    session.project.joinpath("servers", "odd.py").unlink()
    entry = {"command": sys.executable, "args": [str(package / "odd.py"), "plain"]}
    await session.open({"odd": entry})
    assert (await session.told("connected"))["sandbox"] == "active"
    refused = await session.call("odd_write", path=str(package / "made"))
    assert not refused.success
    assert not (package / "made").exists()
    await session.call("odd_write", path=str(package.parent / "diary"))
    assert (package.parent / "diary").read_text() == "secret words"


@pytest.mark.usefixtures("_sandboxed")
async def test_paths_that_the_sandbox_does_not_show(
    session: Session, odd: Odd, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An argument that the server cannot see is named, with how to show exactly that path, also if it connects."""
    (tmp_path / "documents").mkdir()
    servers = {"odd": odd("plain", str(tmp_path / "documents")), "other": odd("exit", str(tmp_path / "documents"))}
    await session.open(servers, retry={"attempts": 1})
    told = await session.told("failed")
    assert told["reason"].endswith(f"; its sandbox does not show {tmp_path}/documents")
    assert told["advice"].endswith(f'set `"sandbox": {{"readable": ["{tmp_path}/documents"]}}` in its entry')
    await session.told("connected")
    assert f"the MCP server odd: its sandbox does not show {tmp_path}/documents. To let it read" in caplog.text


@pytest.mark.usefixtures("_sandboxed")
async def test_a_package_that_is_not_installed(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package runner is not started when it would need a network: the fault says what to install, and no more."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "npx").write_text("#!/bin/sh\ntouch started\n")
    (tmp_path / "bin" / "npx").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    await session.open({"odd": {"command": "npx", "args": ["-y", "@scope/no-such-package"]}})
    told = await session.told("failed")
    assert (told["code"], told["retry_in"]) == ("not_installed", None)
    assert told["advice"].startswith("Install it with `npm install --global @scope/no-such-package`")
    assert not (session.project / "started").exists()


# -- an untrusted project --


@pytest.fixture
def user_entry(session: Session) -> Callable[..., None]:
    """Give `user_entry(**entry)`: name a server in the user's own file; the project is not trusted."""
    session.coordinator.register_capability("project.is_trusted", lambda: False)

    def write(**entry: Any) -> None:
        session.home.mkdir()
        (session.home / "mcp.json").write_text(json.dumps({"mcpServers": {"mine": entry}}))

    return write


@pytest.mark.parametrize("box", ["off", "auto"])
@pytest.mark.parametrize(
    "entry",
    [
        {"command": "./run"},
        {"command": "sub/../run"},
        {"command": sys.executable, "args": ["servers/odd.py", "plain"]},
        {"command": "sh", "args": ["-e", "run"]},
    ],
)
async def test_the_users_server_runs_no_code_of_an_untrusted_project(
    session: Session, user_entry: Callable[..., None], entry: dict[str, Any], box: str
) -> None:
    """A relative command of the user's own file is not started in a project that is not trusted."""
    (session.project / "sub").mkdir()
    (session.project / "run").write_text("#!/bin/sh\ntouch ran\n")
    (session.project / "run").chmod(0o755)
    user_entry(**entry, sandbox=box)
    await session.open({})
    told = await session.told("failed")
    assert (told["code"], told["retry_in"]) == ("untrusted", None)
    assert "which is not trusted" in told["reason"]
    assert not (session.project / "ran").exists()


async def test_an_absolute_path_of_the_users_own_file(session: Session, user_entry: Callable[..., None]) -> None:
    """An absolute path in the user's own file is the user's word for that script, wherever it is."""
    script = session.project / "servers" / "odd.py"
    user_entry(command=sys.executable, args=[str(script), "plain"], sandbox="off")
    await session.open({})
    assert (await session.told("connected"))["server"] == "mine"


async def test_a_module_of_an_untrusted_project(
    session: Session, user_entry: Callable[..., None], tmp_path: Path
) -> None:
    """`python -m NAME` of the user's own file takes no module of that name from an untrusted project."""
    for folder, text in ((session.project, "planted"), (tmp_path / "installed", "installed")):
        folder.mkdir(exist_ok=True)
        (folder / "myserver.py").write_text(f"import sys; sys.exit('cannot start: {text}')")
    entry = {"command": sys.executable, "args": ["-m", "myserver"]}
    user_entry(**entry, env={"PYTHONPATH": str(tmp_path / "installed")}, sandbox="off")
    await session.open({}, retry={"attempts": 1})
    assert "cannot start: installed" in (await session.told("failed"))["reason"]


@pytest.mark.usefixtures("_sandboxed")
@pytest.mark.parametrize("target", ["/", "~/.ssh", "home"])
async def test_a_hostile_link_in_a_trusted_project(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """A link that a command has put in the project shows a server nothing of what it leads to."""
    user = tmp_path / "user"
    (user / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(user))
    place = {"/": Path("/"), "~/.ssh": user / ".ssh", "home": session.home}[target]
    place.mkdir(exist_ok=True)
    secret = user / ".ssh" / "key" if target == "/" else place / "key"
    secret.write_text("secret words")
    (session.project / "node_modules").symlink_to(place)
    inner = session.project / "node_modules" / secret.relative_to(place)
    script = f"cat '{secret}' '{inner}'; ls -a '{place}'; exit 1"
    (session.project / "run").write_text(f"#!{session.project}/node_modules/bin/sh\n{script}\n")
    entry = {"command": "sh", "args": ["-c", f"exec 1>&2; {script}", "./run", f"{session.project}/node_modules"]}
    await session.open({"odd": entry}, retry={"attempts": 1})
    await session.told("failed")
    log = (session.home / "logs" / "mcp-servers" / "odd.log").read_text()
    assert "secret words" not in log
    assert "No such file or directory" in log
