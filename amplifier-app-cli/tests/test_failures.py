"""Faults in words, with codes for machines and for shells."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner

from amplifier_app_cli import exits
from amplifier_app_cli.failures import describe_failure, exit_code_of, report_errors
from amplifier_app_cli.ui.records import json_option
from amplifier_core.llm_errors import RateLimitError
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.prompt.delivery import SystemPromptMissingError
from amplifier_foundation.sessions.plan import ModulesMissingError
from amplifier_kit.log.files import SessionLogBusy


class _Untrusted(FoundationError):
    code = "untrusted"


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (FoundationError("x"), "foundation", 1),
        (_Untrusted("x"), "untrusted", 6),
        (ModulesMissingError(["one", "two"]), "modules_missing", 6),
        (RateLimitError("slow down"), "provider", 7),
        (FileNotFoundError(2, "No such file", "a.txt"), "os_error", 1),
        (ValueError("bad plan"), "plan_invalid", 1),
    ],
)
def test_each_fault_has_its_codes(error: Exception, code: str, exit_code: int) -> None:
    """A fault is described by a stable code, words, and the exit code that stands for it."""
    failure = describe_failure(error)
    assert failure is not None
    assert (failure.code, failure.exit_code) == (code, exit_code)
    assert failure.message


def test_faults_of_ours_are_not_hidden() -> None:
    """What is nobody's mistake but ours is described only when everything is to be."""
    assert describe_failure(KeyError("x")) is None
    assert describe_failure(KeyError("x"), anything=True) is not None
    assert exit_code_of(KeyError("x")) == 1


def test_all_missing_modules_are_listed() -> None:
    """Every module has its line, and the way to go on without them is told when there is one."""
    failure = describe_failure(ModulesMissingError(["one", "two"]))
    assert failure is not None
    assert failure.message.splitlines()[1:3] == ["  - one", "  - two"]
    assert "--allow-missing-modules" in failure.message
    fatal = describe_failure(ModulesMissingError(["one"], is_fatal=True))
    assert fatal is not None
    assert "--allow-missing-modules" not in fatal.message


def _command(error: BaseException) -> click.Command:
    @click.command()
    @json_option
    @report_errors
    def command(as_json: bool) -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code", "exit_code"),
    [
        (FoundationError("not \x1b[31mso"), "foundation", 1),
        (_Untrusted("x"), "untrusted", 6),
        (RateLimitError("x"), "provider", 7),
        (PermissionError(13, "Permission denied", "a.txt"), "os_error", 1),
        (SessionLogBusy.__new__(SessionLogBusy), "session_busy", 1),
    ],
)
def test_commands_tell_in_both_formats(error: Exception, code: str, exit_code: int) -> None:
    """For people one line on standard error; for programs an object on standard output besides."""
    for arguments, is_json in (([], False), (["--format", "json"], True)):
        result = CliRunner().invoke(_command(error), arguments)
        assert result.exit_code == exit_code
        assert result.stderr.startswith("amplifier: ")
        assert "\x1b" not in result.output
        if is_json:
            told_of = json.loads(result.stdout)
            assert (told_of["status"], told_of["code"]) == ("error", code)
        else:
            assert result.stdout == ""


def test_a_bug_is_not_told_as_a_mistake_of_the_user() -> None:
    """A fault of ours keeps its traceback; a wrong use stays click's to tell."""
    assert isinstance(CliRunner().invoke(_command(KeyError("x")), []).exception, KeyError)
    assert CliRunner().invoke(_command(click.UsageError("x")), []).exit_code == 2


def test_a_lost_system_prompt_is_a_fault_of_a_module() -> None:
    """A turn that fails because a module lost the system prompt ends as other faults of modules do."""
    assert exit_code_of(SystemPromptMissingError("lost")) == exits.MODULES
