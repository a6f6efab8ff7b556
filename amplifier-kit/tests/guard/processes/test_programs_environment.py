"""A command inherits the environment, without what is named like a secret."""

from __future__ import annotations

import pytest

from amplifier_kit.guard.processes.programs import command_environment, is_secret_variable
from amplifier_kit.guard.redaction import redactor
from amplifier_kit.guard.redaction.redactor import remember_keys, remember_secrets


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


@pytest.fixture
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process know no secrets, and forget those of the test."""
    monkeypatch.setattr(redactor, "_known", {})
    monkeypatch.setattr(redactor, "_key_names", set())


@pytest.mark.usefixtures("_nothing_known")
def test_keys_of_the_user_are_withheld_under_any_name() -> None:
    """A key of the user's is told by its name or its value, and given only to whom it is passed by name."""
    remember_keys(["ACME_LOGIN", "ACME_REGION", "PATH"])
    remember_secrets(["hunter2-correct-horse"])
    source = {
        "PATH": "/bin",
        "ACME_LOGIN": "another value",
        "ACME_REGION": "x",
        "COPY": "hunter2-correct-horse",
        "OTHER": "hunter2",
    }
    given, withheld = command_environment((), source)
    assert withheld == ["ACME_LOGIN", "ACME_REGION", "COPY"]
    assert given["PATH"] == "/bin"
    assert command_environment(["ACME_*"], source)[1] == ["COPY"]
    assert command_environment(["COPY"], source)[1] == ["ACME_LOGIN", "ACME_REGION"]


@pytest.mark.parametrize(
    "value",
    [
        "postgres://user:word@host/base",
        "redis://:word@host:6379/0",
        "https://user:word@host/simple",
        "postgresql+psycopg2://u:p%40ss@h",
        "first https://host/simple then https://user:word@host/simple",
    ],
)
def test_addresses_with_a_password_are_withheld(value: str) -> None:
    """A variable with a password in an address is withheld whatever its name, unless it is passed by name."""
    assert command_environment((), {"SOME_URL": value})[1] == ["SOME_URL"]
    assert command_environment(["SOME_URL"], {"SOME_URL": value})[0]["SOME_URL"] == value


@pytest.mark.parametrize(
    "value",
    [
        "https://host:8080/simple",
        "https://user@host/simple",
        "http://host/a:b@c",
        "git@host:path",
        "/a:/b@c",
        "unix:path=/run/user/1/bus",
        "a://b/c:d@e",
    ],
)
def test_addresses_without_a_password_are_given(value: str) -> None:
    """Ports, names of users and paths are no passwords."""
    assert command_environment((), {"SOME_URL": value})[1] == []
