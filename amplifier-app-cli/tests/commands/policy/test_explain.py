"""`amplifier policy explain`: why something is allowed, asked for or denied."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Give = Callable[..., Result]
Wrote = Callable[[str, str], Path]

_USER = "rules:\n  - {command: 'git push *', verdict: deny, reason: people push}\n"


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["--command", "git push; rm x"], "deny: process.exec"),
        (["--", "git", "push", "--force"], "deny: process.exec"),
        (["git push"], "deny: process.exec"),
        (["--", "echo", "git push; x"], "ask: process.exec"),
        (["--read", "src/a.py"], "allow: filesystem.read"),
        (["--read", "../x"], "deny: filesystem.read"),
        (["--write", "src/a.py"], "ask: filesystem.write"),
        (["--write", "/etc/passwd"], "deny: filesystem.write"),
        (["--fetch", "https://example.com/"], "ask: network.fetch"),
        (["session.spawn"], "ask: session.spawn"),
        (["mcp.call"], "ask: mcp.call"),
        (["tool.bash"], "ask: process.exec"),
        (["--tool", "todo"], "allow: tool.todo"),
        (["--tool", "launch"], "ask: tool.launch"),
    ],
)
def test_ways_to_ask(give: Give, wrote: Wrote, arguments: list[str], first: str) -> None:
    """Actions, commands in one text or in words, paths, addresses and tools can be asked about."""
    wrote("user", _USER)
    result = give("explain", *arguments)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == first


@pytest.mark.parametrize(
    ("word", "meant"), [("sesion.spawn", "session.spawn"), ("mcpcall", "mcp.call"), ("network.fetch", ""), ("ls", "")]
)
def test_a_mistyped_action_is_not_taken_in_silence(give: Give, word: str, meant: str) -> None:
    """A word that is nearly an action is explained as the command that it is, and the action is named."""
    result = give("explain", word)
    said = f"note: {word!r} is taken for a command; did you mean the action {meant!r}?"
    assert (said in result.stderr) is bool(meant)
    assert meant or "did you mean" not in result.stderr


def test_parts_rules_and_remedies(give: Give, wrote: Wrote) -> None:
    """Each part has its verdict, the rule with file and line, and it is said what would change it."""
    user = wrote("user", _USER)
    lines = give("explain", "--command", "git push; rm x").stdout.splitlines()
    assert lines == [
        "deny: process.exec",
        "  deny   git push",
        f'         `deny command "git push *"`, {user}:2: people push',
        "  ask    rm x",
        "         `ask process.exec`, the program's own rules: running a command",
        f'to change it: {user}:2: remove `deny command "git push *"` or make it narrower: deny is absolute',
    ]


def test_for_programs(give: Give) -> None:
    """JSON has the verdict, the parts, and the rules that would allow it as they would be written."""
    record = json.loads(give("explain", "--command", "make test", "--format", "json").stdout)
    assert (record["verdict"], record["action"], record["scope"]) == ("ask", "process.exec", "default")
    assert [part["what"] for part in record["parts"]] == ["make test"]
    (rule,) = record["rules_that_would_allow"]
    assert (rule["verdict"], rule["command"]) == ("allow", "make test")


@pytest.mark.parametrize("arguments", [[], ["ls", "--read", "x"], ["--read", "x", "--write", "y"]])
def test_one_thing_at_a_time(give: Give, arguments: list[str]) -> None:
    """Nothing, or two things at once, is a wrong use."""
    assert give("explain", *arguments).exit_code == 2


def test_escapes_do_not_reach_the_terminal(give: Give) -> None:
    """What is asked about cannot steer the terminal."""
    assert "\x1b" not in give("explain", "--command", "ls \x1b[31m").stdout


def test_problems_are_told(give: Give, wrote: Wrote) -> None:
    """A bad entry that matters is reported with its place."""
    user = wrote("user", "rules: [{comand: x, verdict: deny}]\n")
    result = give("explain", "--read", "a")
    assert result.stdout.startswith("ask: filesystem.read")
    assert f"{user}:1: repair this entry" in result.stdout
    assert f"problem: {user}:1" in result.stderr


@pytest.mark.parametrize("arguments", [["filesystem.write"], ["--tool", "write_file"], ["tool.read_file"]])
def test_a_file_has_to_be_named(give: Give, arguments: list[str]) -> None:
    """What depends on the file is not explained without one, and no rule for every place is proposed."""
    result = give("explain", *arguments)
    assert result.exit_code == 2
    assert "depends on the file" in result.stderr
    assert "would allow" not in result.output


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "10.0.0.7", "169.254.169.254"])
def test_addresses_that_no_rule_opens(give: Give, host: str) -> None:
    """Of what the tool refuses by itself it is not said that a rule would allow it."""
    said = give("explain", "--fetch", f"http://{host}/").stdout
    assert "whatever rules say" in said
    assert "would allow" not in said
    assert "this rule would allow it" in give("explain", "--fetch", "http://example.com/").stdout
