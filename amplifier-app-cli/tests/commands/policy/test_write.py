"""`amplifier policy allow`, `ask`, `deny` and `remove`: rules in policy files, written by commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from amplifier_foundation.paths import Home
from amplifier_foundation.trust.store import TrustStore

Give = Callable[..., Result]
Wrote = Callable[..., Path]


def _verdict(give: Give, *action: str) -> str:
    verdict: str = json.loads(give("explain", *action, "--json").stdout)["verdict"]
    return verdict


@pytest.mark.parametrize(
    ("rule", "action", "said"),
    [
        ("npm test", ("--command", "npm test"), "exactly the command `npm test`"),
        ("git push *", ("--command", "git push --force"), "commands of the form `git push *`"),
        ("write src/**", ("--write", "src/a/b.py"), "writing `"),
        ("read /srv/*.txt", ("--read", "/srv/a.txt"), "reading `/srv/*.txt`"),
        ("fetch https://docs.example.com/x", ("--fetch", "https://docs.example.com/y"), "the host docs.example.com"),
        ("tool mcp_notes_*", ("--tool", "mcp_notes_count"), "the tools mcp_notes_*"),
        ("session.spawn", ("session.spawn",), "starting child sessions"),
        ('process.exec command "make lint"', ("--command", "make lint"), "exactly the command `make lint`"),
        ("{action: mcp.call, tool: x_y}", ("mcp.call", "--tool", "x_y"), "any tool of any MCP server, by the tool x_y"),
    ],
)
def test_a_rule_has_its_effect(give: Give, rule: str, action: tuple[str, ...], said: str) -> None:
    """Every form of a rule allows what it names, is said back in plain words, and denies it with `deny`."""
    allowed = give("allow", rule)
    assert allowed.exit_code == 0, allowed.stderr
    assert "allowed without asking: " in allowed.stdout
    assert said in allowed.stdout
    assert _verdict(give, *action) == "allow"
    assert "denied: " in give("deny", rule, "--reason", "not here").stdout
    assert _verdict(give, *action) == "deny"


def test_comments_stay_and_nothing_is_written_twice(give: Give, wrote: Wrote) -> None:
    """The file keeps its comments and order, and a rule that it has already is not added again."""
    file = wrote("user", "# mine\nrules:\n  - {command: make, verdict: allow}  # build\n")
    first = json.loads(give("allow", "npm", "test", "--json").stdout)
    assert (first["changed"], first["file"], first["rule"]) == (
        True,
        str(file),
        'allow process.exec command "npm test"',
    )
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# mine\nrules:\n  - {command: make, verdict: allow}  # build\n")
    assert json.loads(give("allow", "npm test", "--json").stdout)["changed"] is False
    assert file.read_text(encoding="utf-8") == text


def test_a_stronger_rule_is_named(give: Give, wrote: Wrote) -> None:
    """What is allowed and still denied is said at once, with the rule that denies it."""
    wrote("local", "rules: [{command: 'npm *', verdict: deny}]\n")
    result = give("allow", "npm test")
    assert "note: here the verdict is still deny" in result.stderr
    assert "policy.local.yaml" in result.stderr
    assert json.loads(give("allow", "npm test", "--json").stdout)["now"]["verdict"] == "deny"


@pytest.mark.parametrize(("scope", "name"), [("--project", "policy.yaml"), ("--local", "policy.local.yaml")])
def test_rules_of_a_project(give: Give, home: Home, project: Path, scope: str, name: str) -> None:
    """An untrusted project's files may deny, and not allow; a trusted one stays trusted after the command."""
    refused = give("allow", "npm test", scope)
    assert refused.exit_code == 1
    assert "amplifier trust" in refused.stderr
    assert give("deny", "git push *", scope).exit_code == 0
    assert _verdict(give, "--command", "git push") == "deny"
    TrustStore(home).trust(project)
    assert give("allow", "npm test", scope).exit_code == 0
    assert TrustStore(home).state(project).trusted
    assert "npm test" in (project / ".amplifier" / name).read_text(encoding="utf-8")
    assert _verdict(give, "--command", "npm test") == "allow"


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("a && b", "more than one command"),
        ("deny npm test", "says deny, and is to allow"),
        ("mcp.call nonsense", "unknown words"),
        ("{nonsense: 1}", "unknown key 'nonsense'"),
        ("{action: [}", "not a YAML mapping"),
        ("write ../**/..", "goes up"),
        ("   ", "empty"),
    ],
)
def test_an_invalid_rule_is_refused(give: Give, home: Home, rule: str, why: str) -> None:
    """What is not a rule is a usage error that says why, and nothing is written."""
    result = give("allow", rule)
    assert result.exit_code == 2
    assert why in result.stderr
    assert not (home.path / "policy.yaml").exists()


def test_remove(give: Give, wrote: Wrote) -> None:
    """A rule is removed by what it says, with or without its verdict; an unknown one is an error."""
    file = wrote("user", "rules:\n  - {command: make, verdict: allow}  # build\n")
    give("allow", "npm test")
    give("deny", "npm test")
    assert give("remove", "deny npm test").exit_code == 0
    assert _verdict(give, "--command", "npm test") == "allow"
    removed = json.loads(give("remove", "npm", "test", "--json").stdout)
    assert removed["rule"] == 'allow process.exec command "npm test"'
    assert file.read_text(encoding="utf-8") == "rules:\n  - {command: make, verdict: allow}  # build\n"
    again = give("remove", "npm test", "--json")
    assert (again.exit_code, json.loads(again.stdout)["code"]) == (2, "policy_rule_not_found")
