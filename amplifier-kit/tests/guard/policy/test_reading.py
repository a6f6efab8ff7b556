"""What provably only reads, and everything that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_kit.guard.policy.facts import facts
from amplifier_kit.guard.policy.reading import not_reading

READING = [
    "ls -la src",
    "cat README.md | head -3",
    "grep -rn TODO . | sort | uniq -c",
    "cd src && ls && pwd",
    "find . -name '*.py' -newer setup.cfg",
    "find . -name '*.py' -exec wc -l {} +",
    "for f in *; do wc -l $f; done",
    "cat $FILE",
    "sed -n 1,20p setup.py",
    "awk '{print $1}' names.txt",
    "if test -f x; then cat x; fi",
    "! grep -q x y",
    "timeout 5 rg TODO",
    "ls > /dev/null 2>&1",
    "cat < names.txt",
    "git status --short",
    "git --no-pager log --oneline -5",
    "git diff HEAD~1 -- src",
    "git branch -a",
    "git branch",
    "git stash list",
    "date",
    "date -u +%F",
    "date --date=yesterday --iso-8601=s",
]
NOT_READING = [
    # writes
    "rm x",
    "echo x > y",
    "ls | tee out.txt",
    "cat <(touch x)",
    "ls $(touch x)",
    "cp a b",
    "sed -i s/a/b/ x",
    "sed 's/a/b/w out' x",
    "sort -o x y",
    "sort --output=x y",
    "uniq a b",
    "xxd -r a b",
    "find . -delete",
    "find . -fprint list",
    "find . -exec rm {} +",
    "find . -ok rm {} ';'",
    "awk '{print > \"x\"}' y",
    "date -s tomorrow",
    "date -us tomorrow",
    "date --set=tomorrow",
    "date 010100002020",
    "date -u 010100002020",
    "date -- 010100002020",
    "tree -o x",
    # runs what it is given
    "python -c 'print(1)'",
    "make test",
    "pytest",
    "sh -c 'ls'",
    "bash -c 'rm x'",
    "env ls",
    "env FOO=1 ls",
    "xargs cat",
    "sudo ls",
    "nohup ls",
    "eval ls",
    "exec ls",
    "source x",
    ". ./x",
    "fd -x rm",
    "rg --pre ./run x",
    "awk 'BEGIN {system(\"rm x\")}'",
    "sort --compress-program=./run x",
    "./ls",
    "/tmp/ls",
    "\\rm x",
    "l\"\"s; r'm' x",
    "alias ls=rm; ls x",
    "ls() { rm x; }; ls",
    # decided by variables, or known only when it runs
    "PAGER=./run git log",
    "FOO=1 ls",
    "LD_PRELOAD=./x.so ls",
    "$CMD x",
    "sort $OPTIONS x",
    "find $WHERE",
    "ls > $OUT",
    "X=1",
    # git
    "git -c core.pager=./run log",
    "git -c alias.status='!rm x' status",
    "git -C ../other status",
    "git --git-dir=x status",
    "git --exec-path=. log",
    "git diff --output=x",
    "git diff --ext-diff",
    "git log $X",
    "git grep -O./run x",
    "git checkout .",
    "git branch new",
    "git branch -D x",
    "git stash",
    "git worktree",
    "git remote add x y",
    "git tag v1",
    "git config core.pager ./run",
    "git",
    "",
]


@pytest.mark.parametrize("command", READING)
def test_commands_that_only_read(command: str, tmp_path: Path) -> None:
    """Programs that look, git's commands that show, and their combinations are proved to read."""
    assert not_reading(facts("process.exec", {"tool_input": {"command": command}}, tmp_path)) is None


@pytest.mark.parametrize("command", NOT_READING)
def test_everything_else_may_do_more(command: str, tmp_path: Path) -> None:
    """A program, an option, a wrapper, a variable or a word that is not proved to read has a reason against it."""
    assert not_reading(facts("process.exec", {"tool_input": {"command": command}}, tmp_path))


def test_a_link_in_the_place_of_a_redirect_is_writing(tmp_path: Path) -> None:
    """A file that is written is never reading, wherever a link at its place leads."""
    (tmp_path / "null").symlink_to("/dev/null")
    assert not_reading(facts("process.exec", {"tool_input": {"command": "ls > null"}}, tmp_path))


@pytest.mark.parametrize(
    ("action", "tool_input", "is_reading"),
    [
        ("filesystem.read", {"file_path": "a"}, True),
        ("filesystem.read", {"file_path": "a", "save_to_file": "b"}, False),
        ("filesystem.write", {"file_path": "a"}, False),
        ("network.fetch", {"url": "https://example.com/"}, True),
        ("network.fetch", {"url": "https://example.com/", "save_to_file": "b"}, False),
        ("session.spawn", {}, True),
        ("tool.todo", {}, True),
        ("mcp.call", {}, False),
        ("tool.count_words", {}, False),
        ("process.exec", {}, False),
        ("", {}, False),
    ],
)
def test_other_actions(action: str, tool_input: dict[str, str], is_reading: bool, tmp_path: Path) -> None:
    """Unknown tools and tools of MCP servers are not proved to read, whatever their names say."""
    known = facts(action, {"tool_name": "read_x", "tool_input": tool_input}, tmp_path)
    assert (not_reading(known) is None) is is_reading
