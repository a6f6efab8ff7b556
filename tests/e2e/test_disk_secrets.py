"""Secrets come from everywhere a session looks; none of them is in any file of the home, whatever happens to it."""

from __future__ import annotations

import gzip
import json
import random
import re
import signal
import stat
import string
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.store import SessionCatalog

from .conftest import Project, wait_for

#: What keeps secrets on purpose, as docs/privacy.md says: the keys themselves, and copies of files for undo.
EXCEPTIONS = re.compile(r"keys\.env|projects/[^/]+/sessions/[^/]+/checkpoints/.*|exports/[^/]+\.tar\.gz")
#: What the test itself put into the home, as a user would.
OWN = re.compile(r"(?:AGENTS\.md|mcp\.json|policy\.yaml|skills/.*|hooks/.*)")

BUNDLE = """\
bundle: {name: leaky}
session:
  orchestrator: {module: loop-streaming}
  context: {module: context-persistent}
  raw: true
providers:
  - {module: provider-mock, config: {scenario: scenario.yaml, raw: true}}
hooks:
  - {module: hooks-logging}
  - {module: hook-shell}
tools:
  - {module: tool-bash, config: {max_output_bytes: 4000}}
  - {module: tool-filesystem}
  - {module: tool-skills}
  - {module: tool-delegate}
  - {module: tool-mcp}
agents:
  helper:
    description: Helps.
    instruction: Help.
"""
POLICY = """\
rules:
  - {action: "process.exec", verdict: allow}
  - {action: "filesystem.*", verdict: allow}
  - {action: "session.*", verdict: allow}
  - {action: "mcp.call", tool: "mcp_leaky_*", verdict: allow}
  - {action: "tool.*", verdict: allow}
"""
#: A server of the Model Context Protocol that says its page wherever it can.
SERVER = """\
import json, sys
page = open(sys.argv[1], encoding="utf-8").read()
print(page, file=sys.stderr, flush=True)
for line in sys.stdin:
    call = json.loads(line)
    if "id" not in call:
        continue
    method, result = call["method"], {}
    if method == "initialize":
        result = {"protocolVersion": call["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "leaky", "version": "1"}, "instructions": page}
    elif method == "tools/list":
        schema = {"type": "object", "properties": {"text": {"type": "string", "description": page}}}
        result = {"tools": [{"name": "tell", "description": page, "inputSchema": schema}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": page}]}
    print(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}), flush=True)
"""


class Planter:
    """Make texts with secrets of every kind in them, others for every place, and remember all."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.secrets: dict[str, str] = {}
        #: Known by their value alone: nothing in how they look gives them away.
        self.in_keys = self._add("a key of keys.env", f"{self.word(9)}-{self.word(9)}-{self.digits(4)}")
        self.in_environment = self._add("a variable", f"{self.word(8)}.{self.word(8)}.{self.digits(4)}")

    def word(self, length: int) -> str:
        """Return letters."""
        return "".join(self._chance.choices(string.ascii_lowercase, k=length))

    def digits(self, length: int) -> str:
        """Return digits."""
        return "".join(self._chance.choices("123456789", k=length))

    def token(self, length: int) -> str:
        """Return what tokens consist of."""
        return "".join(self._chance.choices(string.ascii_letters + string.digits, k=length - 2)) + "7q"

    def _add(self, name: str, secret: str) -> str:
        self.secrets[name] = secret
        return secret

    def page(self, where: str) -> str:
        """Return a text with a secret of every kind."""
        amazon = "AKIA" + self.token(16).upper()
        body = "\n".join(self.token(64) for _ in range(6))
        kinds = {
            "GitHub token": (github := f"ghp_{self.token(36)}"),
            "Anthropic key": (anthropic := f"sk-ant-api03-{self.token(60)}"),
            "AWS key": amazon,
            "password in a URL": (password := self.token(18)),
            "bearer": (bearer := self.token(40)),
            "private key": (key := f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"),
        }
        for kind, secret in kinds.items():
            self._add(f"{kind} in {where}", secret)
        return (
            f"{where} has {github} and {anthropic}\naws {amazon}\npostgres://app:{password}@db.example.com/app\n"
            f"Authorization: Bearer {bearer}\n{key}\nlive {self.in_keys} {self.in_environment}\n"
        )


@pytest.fixture
def planter() -> Planter:
    """Return a planter whose secrets are others in every run."""
    return Planter(random.randrange(10**9))


@pytest.fixture
def leaky(project: Project, planter: Planter) -> Project:
    """Return a project with secrets in its files, in the home, the key store and the environment."""
    home, folder = project.home, project.folder
    home.mkdir(mode=0o700)
    (home / "policy.yaml").write_text(POLICY)
    project.environment["LEAKY_DEPLOY_TOKEN"] = planter.in_environment
    (home / "keys.env").write_text(f"PARTNER_CODE={planter.in_keys}\n")
    (home / "keys.env").chmod(0o600)
    (folder / "AGENTS.md").write_text(planter.page("AGENTS.md"))
    (home / "AGENTS.md").write_text(planter.page("the user's AGENTS.md"))
    for name in ("mentioned", "small", "large", "job", "late", "read", "edited"):
        (folder / f"{name}.txt").write_text(planter.page(f"{name}.txt"))
    skill = home / "skills" / "leaky"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: leaky\ndescription: A skill.\n---\n{planter.page('a skill')}")
    hooks = home / "hooks"
    hooks.mkdir()
    (hooks / "page.txt").write_text(planter.page("a shell hook"))
    said = {"hooks": [{"type": "command", "command": f"cat {hooks}/page.txt; cat {hooks}/page.txt >&2"}]}
    (hooks / "hooks.json").write_text(json.dumps({"hooks": {"UserPromptSubmit": [said], "PostToolUse": [said]}}))
    (folder / "live.txt").write_text(f"{planter.in_keys} {planter.in_environment}")
    # Outside of the project, which is not trusted: its own scripts are not started.
    server = folder.parent / "servers" / "server.py"
    server.parent.mkdir()
    server.write_text(SERVER)
    (folder / "server.txt").write_text(planter.page("an MCP server"))
    # Required: the session waits for the server, however slowly it starts.
    entry = {"command": "python3", "args": [str(server), str(folder / "server.txt")], "required": True}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"leaky": entry}}))
    project.script([], bundle=BUNDLE)
    return project


def turns_of(planter: Planter, folder: Path) -> list[dict[str, Any]]:
    """Return what the model does: use every tool on something with secrets."""
    heredoc = f"cat > /dev/null <<'END'\n{planter.page('a command')}END"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("bash", {"command": heredoc}),
        ("bash", {"command": "cat small.txt; cat small.txt >&2"}),
        (
            "bash",
            {"command": "cat large.txt; seq 1 5000; cat large.txt; base64 -w0 live.txt; xxd -p live.txt; seq 1 500"},
        ),
        ("bash", {"command": "printf '\\033[1m%s' \"$(cat large.txt)\"; seq 1 5000; head -c 9000 /dev/urandom"}),
        ("bash", {"command": "cat job.txt; sleep 0.3; cat job.txt; sleep 60", "run_in_background": True}),
        ("read_file", {"file_path": "read.txt"}),
        ("write_file", {"file_path": "written.txt", "content": planter.page("a file that a tool wrote")}),
        ("edit_file", {"file_path": "edited.txt", "old_string": "edited.txt has", "new_string": "it has"}),
        ("load_skill", {"skill_name": "leaky"}),
        ("mcp_leaky_tell", {"text": planter.page("the input of an MCP tool")}),
        ("delegate", {"agent": "helper", "instruction": planter.page("the task of an agent")}),
        ("bash", {"command": "cat no-such-file.txt; echo $LEAKY_DEPLOY_TOKEN; env"}),
    ]
    turns: list[dict[str, Any]] = [{"tool_calls": [{"name": name, "arguments": given}]} for name, given in calls]
    return [
        {"thinking": planter.page("thoughts"), **turns[0]},
        *turns[1:],
        {"text": planter.page("an answer")},
    ]


def write_scenario(project: Project, planter: Planter, turns: list[dict[str, Any]]) -> None:
    """Write what the model and its agents say."""
    helper = [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "cat late.txt; seq 1 5000; cat late.txt"}}]},
        {"text": planter.page("the answer of an agent")},
    ]
    (project.folder / "scenario.yaml").write_text(json.dumps({"turns": turns, "agents": {"helper": helper}}))


@pytest.fixture
def leaks(load: Callable[[str], ModuleType], leaky: Project, planter: Planter) -> Callable[[], list[Any]]:
    """Give `leaks()`: what is found in the home now, of all that was planted until now."""
    search = load("home_search").search

    def found() -> list[Any]:
        def left_out(path: str) -> bool:
            return bool(EXCEPTIONS.fullmatch(path) or OWN.fullmatch(path))

        everything: list[Any] = search(leaky.home, planter.secrets, left_out)
        return everything

    return found


def test_nothing_of_a_run_with_secrets_everywhere_is_on_disk(
    leaky: Project, planter: Planter, leaks: Callable[[], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run reads, writes, runs, asks servers, agents, hooks and skills; no file of the home has a secret of theirs."""
    write_scenario(leaky, planter, turns_of(planter, leaky.folder))
    prompt = planter.page("a prompt") + "\nRead @mentioned.txt"
    done = leaky.run("run", "--bundle", "bundle.yaml", prompt)
    assert done.returncode == 0, done.stderr
    events = "".join(path.read_text(encoding="utf-8") for path in leaky.logs())
    results = [json.loads(line) for line in events.splitlines() if '"event":"tool:post"' in line.replace(" ", "")]
    assert len(results) >= 12, "every tool was used"
    assert "mcp_leaky_tell" in {line["data"]["tool_name"] for line in results}
    failed = [line["data"] for line in results if (line["data"].get("result") or {}).get("success") is False]
    assert len(failed) <= 1, failed
    # A session that goes on, is forked, exported and listed writes more files.
    [session] = [path.parent.name for path in leaky.logs() if "_" not in path.parent.name]
    exports = leaky.home / "exports"
    exports.mkdir()
    for kind in ("md", "json", "jsonl", "tar.gz"):
        exported = leaky.run("session", "export", session, "--output", str(exports / f"session.{kind}"))
        assert exported.returncode == 0, exported.stderr
    assert leaky.run("session", "fork", session).returncode == 0
    renamed = leaky.run("session", "rename", session, f"as {planter.in_keys} and {planter.page('a name').split()[4]}")
    assert renamed.returncode == 0, renamed.stderr
    # A list writes the index of sessions when they have not changed for a while.
    monkeypatch.setattr(SessionCatalog, "settled", 0.0)
    assert SessionCatalog(Home(leaky.home)).read_all()
    outputs = sorted(leaky.home.glob("projects/*/sessions/*/command-output/*.out"))
    assert len(outputs) >= 3
    assert all(b"[REDACTED]" in path.read_bytes() for path in outputs)
    assert (leaky.home / "index.sqlite").exists()
    assert [path for path in leaky.home.glob("logs/mcp-servers/*") if b"[REDACTED]" in path.read_bytes()]
    assert leaks() == []
    _check_modes(leaky.home)


def _check_modes(home: Path) -> None:
    """Whatever was written is for its owner alone; what is fetched and locks may be read."""
    for path in home.rglob("*"):
        inner = path.relative_to(home).as_posix()
        if path.is_symlink() or OWN.fullmatch(inner) or inner.split("/")[0] in ("skills", "hooks", "cache", "exports"):
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o077 == 0, f"{inner} has mode {mode:o}"


def test_nothing_of_a_job_is_on_disk_when_the_program_is_killed(
    leaky: Project, planter: Planter, leaks: Callable[[], list[Any]]
) -> None:
    """Killed while a job and a command write secrets, piece by piece, the program leaves none, and half of none."""
    token = planter.page("pieces").split()[2]
    head, tail = token[:-3], token[-3:]
    (leaky.folder / "pieces.sh").write_text(
        f"echo begun\nwhile :; do printf %s {head}; sleep 0.05; echo {tail}; cat job.txt; head -n 9 late.txt; done\n"
    )
    turns = [
        {"tool_calls": [{"name": "bash", "arguments": {"command": "sh pieces.sh", "run_in_background": True}}]},
        {"tool_calls": [{"name": "bash", "arguments": {"command": "touch ready; sh pieces.sh"}}]},
    ]
    write_scenario(leaky, planter, turns)
    process = leaky.start("run", "--bundle", "bundle.yaml", planter.page("a prompt"))
    try:

        def written() -> Path | None:
            outputs = leaky.home.glob("projects/*/sessions/*/command-output/*.out")
            done = [path for path in outputs if path.stat().st_size > 8000]
            return done[0] if len(done) >= 2 else None

        assert b"begun" in wait_for(written).read_bytes()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    planter.secrets["half a token"] = head
    outputs = list(leaky.home.glob("projects/*/sessions/*/command-output/*.out"))
    assert all(path.read_bytes().count(b"[REDACTED]") > 3 for path in outputs)
    assert leaks() == []


def test_nothing_of_a_failure_or_a_question_is_on_disk(
    leaky: Project, planter: Planter, leaks: Callable[[], list[Any]]
) -> None:
    """An error of the provider, a call that waits for an answer and settings with secrets leave none in the home."""
    write_scenario(leaky, planter, [{"error": {"type": "InvalidRequestError", "message": planter.page("an error")}}])
    assert leaky.run("run", "--bundle", "bundle.yaml", "go").returncode != 0
    (leaky.home / "policy.yaml").write_text('rules: [{action: "process.exec", verdict: ask}]\n')
    secret = planter.page("a call that waits")
    calls = [
        {"name": "bash", "arguments": {"command": f"curl -H '{secret.splitlines()[3]}' example.com"}},
        {"name": "bash", "arguments": {"command": "touch harmless"}},
    ]
    write_scenario(leaky, planter, [{"tool_calls": calls}, {"text": "I wait."}])
    leaky.run("run", "--bundle", "bundle.yaml", "go")
    assert list(leaky.home.glob("projects/*/sessions/*/waiting-calls.json")), "one of both waits"
    key = planter.page("settings").split()[2]
    done = leaky.run("settings", "set", "config.providers.provider-mock.config.api_key", key)
    assert done.returncode in (0, 2), done.stderr
    (leaky.folder / "value").write_text(key)
    with open(leaky.folder / "value", encoding="utf-8") as value:
        assert leaky.run("keys", "set", "NEW_KEY", stdin=value).returncode == 0
    assert leaks() == []


def test_nothing_of_what_is_typed_in_a_chat_is_on_disk(
    leaky: Project, planter: Planter, leaks: Callable[[], list[Any]]
) -> None:
    """The history of a project is masked by the writer, even when the chat forgets to."""
    from amplifier_app_cli.chat.prompt_input import ProjectHistory
    from amplifier_kit.guard.redaction.redactor import remember_secrets

    remember_secrets([planter.in_keys, planter.in_environment])
    history = ProjectHistory(leaky.home / "projects" / "some" / "repl_history", lambda text: text)
    history.append_string(planter.page("a chat"))
    history.append_string("plain words")
    kept = ProjectHistory(leaky.home / "projects" / "some" / "repl_history", lambda text: text).load_history_strings()
    assert [kept[0], len(kept)] == ["plain words", 2]
    assert leaks() == []


def test_a_leak_would_be_found(
    leaky: Project, planter: Planter, leaks: Callable[[], list[Any]], load: Callable[[str], ModuleType]
) -> None:
    """The search can fail: it finds a secret in any form, packed or not, and in a name; and leaves out what it must."""
    secret = planter.page("anywhere").split()[2]
    for number, form in enumerate(load("home_search").forms(secret).values()):
        for kind, content in (
            ("plain", form),
            ("gz", gzip.compress(form)),
            ("gz.gz", gzip.compress(gzip.compress(form))),
        ):
            place = leaky.home / f"{number}.{kind}"
            place.write_bytes(b"before" + content if kind == "plain" else content)
            assert {leak.path for leak in leaks()} == {place.name}
            place.unlink()
    (leaky.home / f"name-{secret}").write_bytes(b"")
    assert [leak.form for leak in leaks()] == ["name of the file"]
    (leaky.home / f"name-{secret}").unlink()
    assert leaks() == []
