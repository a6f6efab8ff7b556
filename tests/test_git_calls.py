"""Every git that the product starts is built by one file, so that nothing a repository configures is ever run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: The one file that may name the program.
BUILDER = ROOT / "amplifier-kit" / "amplifier_kit" / "guard" / "git.py"
#: They run git inside a universe, which has nothing of the host's, or name its Debian package.
_TWIN = ROOT / "amplifier-digital-twin" / "amplifier_digital_twin"
EXEMPT = (
    _TWIN / "base_image.py",
    _TWIN / "wheels.py",
    _TWIN / "profiles/hostile-module/modules/hooks-escape/amplifier_module_hooks_escape/__init__.py",
)
#: A line for a shell, as opposed to a sentence about git.
_SHELL_LINE = re.compile(
    r"git (-[cC] |--[a-z]|(add|archive|checkout|clone|commit|config|describe|diff|fetch|for-each-ref|init|log|ls-files"
    r"|ls-remote|pull|push|remote|rev-parse|show|status|submodule|switch|worktree)( |$))"
)
#: What finds or starts a program by the name that it is given first.
_STARTERS = frozenset(
    {
        *("run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput", "system", "popen"),
        *("create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell", "run_command"),
        *("run_program",),
        *("execv", "execve", "execvp", "execvpe", "execl", "execlp", "spawnv", "spawnvp", "posix_spawn"),
        *("posix_spawnp", "which", "find_program", "split", "Order"),
    }
)


def _sources() -> list[Path]:
    folders = [*ROOT.glob("amplifier-*/amplifier_*"), *ROOT.glob("modules/*/amplifier_module_*")]
    return [path for folder in folders for path in sorted(folder.rglob("*.py")) if path != BUILDER]


def _is_git(node: ast.AST) -> bool:
    """Tell whether an expression is a text that names git, alone, by a path or at the start of a command line."""
    if isinstance(node, ast.JoinedStr) and node.values:
        node = node.values[0]
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    words = node.value.split()
    return bool(words) and (words[0] == "git" or words[0].endswith("/git"))


def _calls_of_git(tree: ast.Module) -> Iterator[int]:
    """Yield the lines where git is started, or where a command line that begins with it is built."""
    names = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and _is_git(node.value)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    compared = {
        part
        for node in ast.walk(tree)
        for part in (
            node.comparators
            if isinstance(node, ast.Compare)
            else [node.slice]
            if isinstance(node, ast.Subscript)
            else ()
        )
    }

    def is_program(node: ast.AST) -> bool:
        return _is_git(node) or (isinstance(node, ast.Name) and node.id in names)

    for node in (each for each in ast.walk(tree) if isinstance(each, ast.expr)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_found = _SHELL_LINE.match(node.value) is not None
        elif isinstance(node, ast.List | ast.Tuple):
            is_found = bool(node.elts) and node not in compared and is_program(node.elts[0])
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            is_found = name in _STARTERS and bool(node.args) and is_program(node.args[0])
        else:
            is_found = False
        if is_found:
            yield node.lineno


def test_git_is_started_in_one_place() -> None:
    """No source but the builder of git commands starts git, or builds a command line with it."""
    sources = _sources()
    assert len(sources) > 500
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sources
        if path not in EXEMPT
        for line in _calls_of_git(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == [], "build the command with amplifier_kit.guard.git, which keeps repositories from running programs"


@pytest.mark.parametrize(
    "line",
    [
        'subprocess.run(["git", "status"])',
        'subprocess.run("git status", shell=True)',
        'command = ["/usr/bin/git", *arguments]',
        'argv = ("git", "--no-pager", verb)',
        'program = shutil.which("git")',
        'await asyncio.create_subprocess_exec("git", "log")',
        '_PROGRAM: Final = "git"\nargv = [_PROGRAM, "log"]',
        'os.execvp("git", words)',
        'subprocess.run(f"git log {ref}", shell=True)',
        'line = "git status --short"\nawait run(("/bin/sh", "-c", line))',
    ],
)
def test_a_second_place_is_noticed(line: str) -> None:
    """The test above can fail."""
    assert list(_calls_of_git(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        'if source.kind in ("git", "zip"): pass',
        'SourceKind = Literal["git", "zip"]',
        'record("git", verdict)',
        'fix = "run `git status` and try again"',
        'said = f"git took longer than {seconds} s"',
    ],
)
def test_a_word_is_no_call(line: str) -> None:
    """Text that only speaks of git is left alone."""
    assert not list(_calls_of_git(ast.parse(line)))
