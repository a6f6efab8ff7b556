"""A command inherits the environment, without what is named like a secret."""

from __future__ import annotations

import pytest

from amplifier_kit.processes import command_environment, is_secret_variable


@pytest.mark.parametrize(
    "name",
    [
        *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY", "GITHUB_TOKEN", "HF_TOKEN"),
        *(
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "DB_PASSWORD",
            "PGPASSWORD",
            "STRIPE_KEY",
            "MY_SECRET",
            "SMTP_PASS",
        ),
    ],
)
def test_secrets(name: str) -> None:
    """Keys, tokens and passwords are told by their names."""
    assert is_secret_variable(name)


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "PWD", "OLDPWD", "LANG", "SSH_AUTH_SOCK", "HTTPS_PROXY", "XAUTHORITY", "AWS_REGION", "KEYBOARD"],
)
def test_ordinary_variables(name: str) -> None:
    """What commands need is not taken for a secret."""
    assert not is_secret_variable(name)


def test_what_is_given_and_what_is_not() -> None:
    """All but secrets is given, and secrets that are named; who asks learns what was withheld."""
    source = {
        "PATH": "/bin",
        "TERM": "xterm",
        "A_TOKEN": "1",
        "B_TOKEN": "2",
        "AWS_SECRET_ACCESS_KEY": "3",
        "C_KEY": "4",
    }
    given, withheld = command_environment(["B_TOKEN", "AWS_*"], source)
    assert given == {
        "PATH": "/bin",
        "TERM": "dumb",
        "B_TOKEN": "2",
        "AWS_SECRET_ACCESS_KEY": "3",
        "GIT_TERMINAL_PROMPT": "0",
    }
    assert withheld == ["A_TOKEN", "C_KEY"]


def test_our_own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless another is given, it is ours as it is now, which stays as it is."""
    monkeypatch.setenv("SOME_API_KEY", "value")
    monkeypatch.setenv("SOME_SETTING", "value")
    given, withheld = command_environment()
    assert given["SOME_SETTING"] == "value"
    assert "SOME_API_KEY" not in given
    assert "SOME_API_KEY" in withheld
