"""Checks: what passes, what fails, and in which words."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from amplifier_digital_twin.checks import difference, judge_command, judge_files, judge_logs
from amplifier_digital_twin.engines.engine import Finished
from amplifier_digital_twin.files import InnerFile
from amplifier_digital_twin.profile.model import Expectation, FileExpectation, JsonlExpectation, Screenshot
from amplifier_digital_twin.screenshot import judge_page, judge_picture


def _expect(**keys: Any) -> Expectation:
    return Expectation.model_construct(**keys)


def _file(**keys: Any) -> FileExpectation:
    return FileExpectation.model_construct(path="/x", **keys)


def _lines(**keys: Any) -> JsonlExpectation:
    return JsonlExpectation.model_construct(glob="/x", **keys)


@pytest.mark.parametrize(
    ("expected", "exit_code", "stdout", "problem"),
    [
        ({}, 0, "", None),
        ({}, 3, "", "the exit code is 3, not 0 (last words)"),
        ({"exit": 3}, 3, "", None),
        ({"exit": None}, 7, "", None),
        ({"stdout": "PASS"}, 0, "PASSED", None),
        ({"stdout": "PASS"}, 0, "FAIL", "stdout does not contain 'PASS'"),
        ({"stderr": "words"}, 0, "", None),
        ({"stdout_json": {"a": 1}}, 0, '{"a": 1, "b": 2}', None),
        ({"stdout_json": {"a": 1}}, 0, '{"a": 2}', "stdout.a is 2, not 1"),
        ({"stdout_json": {"a": 1}}, 0, "text", "stdout is not JSON"),
    ],
)
def test_commands_are_judged(expected: dict[str, Any], exit_code: int, stdout: str, problem: str | None) -> None:
    """Exit code, output and JSON of a command are compared with what was expected."""
    finished = Finished(exit_code, stdout.encode(), b"first\nlast words\n", False, 0.1)
    assert judge_command(_expect(**expected), finished, 5) == ([] if problem is None else [problem])


def test_a_command_that_timed_out_fails() -> None:
    """Whatever was expected, a command that did not end in time has not shown it."""
    assert judge_command(_expect(exit=None), Finished(124, b"", b"", True, 5), 5) == [
        "it was not done after 5 s and was ended"
    ]


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ({}, ""),
        ({"contains": "word"}, ""),
        ({"contains": "other"}, "it does not contain 'other'"),
        ({"matches": "^a w"}, ""),
        ({"matches": "^w"}, "nothing in it matches '^w'"),
        ({"mode": 0o644}, ""),
        ({"mode": 0o600}, "its permissions are 0644, not 0600"),
        ({"sha256": hashlib.sha256(b"a word").hexdigest()}, ""),
        ({"exists": False}, "/x exists, and must not"),
    ],
)
def test_files_are_judged(expected: dict[str, Any], problem: str) -> None:
    """Existence, content, hash and permissions of a file are compared with what was expected."""
    assert judge_files(_file(**expected), [InnerFile("/x", "file", 0o644, b"a word")]) == problem


def test_missing_files_and_links_fail() -> None:
    """A file that is missing, or that is a link, has not the content that was expected."""
    assert judge_files(_file(contains="a"), []) == "no such file"
    assert judge_files(_file(exists=False), []) == ""
    assert judge_files(_file(contains="a"), [InnerFile("/x", "link", 0o777, b"a")]) == "it is a link, not a file"


GOOD = b'{"event": "a"}\n{"event": "b"}\n'


@pytest.mark.parametrize(
    ("expected", "content", "problem"),
    [
        ({"has": ("a", "b"), "in_order": True}, GOOD, ""),
        ({"has": ("b", "a"), "in_order": True}, GOOD, "is out of order"),
        ({"has": ("c",)}, GOOD, "no line has event 'c'"),
        ({"lacks": ("a",)}, GOOD, "a line has event 'a', and must not"),
        ({"has": ("a",)}, b'{"event":"a"}\n', "as `grep` finds it"),
        ({"has": ("a",)}, GOOD + b"{broken\n", "line 3 is not JSON"),
    ],
)
def test_logs_are_judged(expected: dict[str, Any], content: bytes, problem: str) -> None:
    """Events must be there, in order, in lines that are JSON and that the seeds' grep finds."""
    found, seen = judge_logs(_lines(**expected), [InnerFile("/x", "file", 0o600, content)])
    assert (problem in found) if problem else (found == "")
    assert seen[0]["path"] == "/x"


def test_any_or_all_logs_must_pass() -> None:
    """`any` takes one good file, `all` wants every one, and no file at all fails."""
    files = [InnerFile("/a", "file", 0, GOOD), InnerFile("/b", "file", 0, b"")]
    assert judge_logs(_lines(has=("a",), files="any"), files)[0] == ""
    assert judge_logs(_lines(has=("a",), files="all"), files)[0].startswith("/b: ")
    assert "no such file" in judge_logs(_lines(has=("a",)), [])[0]


@pytest.mark.parametrize(
    ("expected", "actual", "problem"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ([1, 3], [1, 2, 3], ""),
        ([3, 1], [1, 2, 3], "the answer has no 1 (in this order)"),
        (1, True, "the answer is true, not 1"),
        ({"a": {"b": 1}}, {"a": {}}, "a has no 'b'"),
        ([], [1], "the answer is [1], not an empty list"),
    ],
)
def test_json_is_compared_by_its_expected_part(expected: Any, actual: Any, problem: str) -> None:
    """Only what was expected counts; numbers equal by value, and true is not 1."""
    assert difference(expected, actual) == problem


def test_pages_and_pictures_are_judged() -> None:
    """A picture must be one, and a page must show its text, not a browser's error page."""
    wanted = Screenshot.model_construct(url="http://localhost/", expect_text="a word")
    assert judge_picture(b"\x89PNG\r\n\x1a\n" + bytes(8) + b"\0\0\0\1\0\0\0\1") == []
    assert judge_picture(b"GIF") == ["what the browser wrote is not a picture"]
    assert judge_page(wanted, "<body>a\n  word<script>x</script></body>") == []
    assert judge_page(wanted, "<body><script>a word</script></body>") == ["the page does not show 'a word'"]
    assert "ERR_FAILED" in judge_page(wanted, '<body class="neterror">ERR_FAILED</body>')[0]
