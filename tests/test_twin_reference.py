"""The documentation of `amplifier-digital-twin` says what the program has: error codes, exit codes, commands."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from amplifier_digital_twin import cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCES = sorted((ROOT / "amplifier-digital-twin" / "amplifier_digital_twin").rglob("*.py"))
#: Where faults begin that are told with a code: TwinError.
ROOTS = {"TwinError"}
HEADING = "## The digital twin"


class Codes(ast.NodeVisitor):
    """The codes that a file gives to faults, and the places where it cannot be told which."""

    def __init__(self, tree: ast.Module, errors: set[str]) -> None:
        self.errors = errors
        self.constants = dict(_assigned(tree))
        self.factories = {
            node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and _passes_code_on(node, errors)
        }
        self.found: set[str] = set()
        self.unknown: list[int] = []
        self.visit(tree)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Take the code that a class hands to the one above it; a call of the class itself has none."""
        if node.name in self.errors - ROOTS:
            calls = [each for each in ast.walk(node) if isinstance(each, ast.Call) and _name(each) == "__init__"]
            for call in calls:
                self._take(call.args[0])
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """Take the first argument, or `code=`, of everything that makes a fault or passes a code on."""
        given = [each.value for each in node.keywords if each.arg == "code"]
        if _name(node) in {*ROOTS, *self.factories}:
            given += node.args[:1]
        for value in given:
            self._take(value)
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        """Take the code of `{"code": "x", "message": …}`."""
        named = {_text(key): value for key, value in zip(node.keys, node.values, strict=True)}
        if {"code", "message"} <= set(named):
            self._take(named["code"])
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Take the codes of `return "x", message, remedy` in what describes the faults of others."""
        if node.name == "described":
            for each in ast.walk(node):
                if isinstance(each, ast.Return) and isinstance(each.value, ast.Tuple):
                    self._take(each.value.elts[0])
        self.generic_visit(node)

    def _take(self, value: ast.expr) -> None:
        text = _text(value)
        if text is not None:
            self.found.add(text)
        elif isinstance(value, ast.IfExp):
            self._take(value.body)
            self._take(value.orelse)
        elif isinstance(value, ast.Call) and _name(value) == "getattr":  # of a fault that may have none
            self._take(value.args[2])
        elif isinstance(value, ast.Name) and value.id in self.constants:
            self._take(self.constants[value.id])
        elif not _is_passed_on(value):
            self.unknown.append(value.lineno)


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "id", getattr(call.func, "attr", "")))


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _is_passed_on(value: ast.expr) -> bool:
    """Tell whether a code comes from another fault, or from a caller, where it is looked for as well."""
    is_entry = isinstance(value, ast.Subscript) and _text(value.slice) == "code"
    return is_entry or getattr(value, "id", getattr(value, "attr", "")) == "code"


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield names that stand for a text, or for one of two."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Constant | ast.IfExp):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node.value) for target in targets if isinstance(target, ast.Name))


def _passes_code_on(function: ast.FunctionDef, errors: set[str]) -> bool:
    """Tell whether the first argument of a function is the code of a fault that it makes or tells."""
    first = function.args.args[0].arg if function.args.args else ""
    makes = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _name(node) in errors]
    return first == "code" and any(getattr(call.args[0], "id", "") == first for call in makes if call.args)


def _trees() -> list[tuple[Path, ast.Module]]:
    return [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in SOURCES]


def _errors(trees: list[tuple[Path, ast.Module]]) -> set[str]:
    """Return the names of the classes whose instances have codes."""
    classes = [node for _, each in trees for node in ast.walk(each) if isinstance(node, ast.ClassDef)]
    found = set(ROOTS)
    while more := {node.name for node in classes if {getattr(base, "id", "") for base in node.bases} & found} - found:
        found |= more
    return found


def _codes_of(text: str) -> Codes:
    parsed = ast.parse(text)
    return Codes(parsed, _errors([(Path("x.py"), parsed)]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('raise TwinError("a_b", f"{x}", "do")', {"a_b"}),
        ('FAILED: Final = "a_b"\nraise errors.TwinError(FAILED, "x", "do")', {"a_b"}),
        ('class Own(TwinError):\n def __init__(self):\n  super().__init__("a_b", "x", "do")', {"a_b"}),
        ('def fault(code, why):\n return TwinError(code, why, "")\nraise fault("a_b", "x")', {"a_b"}),
        ('code = "a_b" if x else "c_d"\nsend({"code": code, "message": "x"})', {"a_b", "c_d"}),
        ('report(kind="failed", code="a_b")', {"a_b"}),
        ('def described(error):\n return "a_b", str(error), ""', {"a_b"}),
        ('write(code=getattr(error, "code", "a_b"))', {"a_b"}),
        ('raise TwinError(error.code, "x", error.remedy)', set()),
        ('raise TwinError(answer["code"], "x", "do")', set()),
    ],
)
def test_codes_are_found_wherever_they_are_given(text: str, expected: set[str]) -> None:
    """A code is found as a word, a constant, in a subclass, through a function, and in what processes say."""
    codes = _codes_of(text)
    assert (codes.found, codes.unknown) == (expected, [])


def test_a_code_that_cannot_be_read_is_noticed() -> None:
    """A code that is made up while the program runs cannot be documented."""
    assert _codes_of('raise TwinError(f"{kind}_failed", "x", "do")').unknown == [1]


def _section() -> str:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    return text.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]


def test_every_error_code_of_the_digital_twin_is_documented() -> None:
    """errors.md has a row for each stable code of the digital twin, once, and none for a code that is gone."""
    trees = _trees()
    errors = _errors(trees)
    codes = [(path, Codes(tree, errors)) for path, tree in trees]
    assert [f"{path.name}:{line}" for path, each in codes for line in each.unknown] == []
    known = {code for _, each in codes for code in each.found}
    assert len(known) > 40
    rows = re.findall(r"^\| `([a-z_]+)` \|", _section(), flags=re.MULTILINE)
    assert sorted(rows) == sorted(known)


def test_every_row_has_cause_and_remedy() -> None:
    """A code alone helps nobody: each row says what happened and what to do."""
    rows = re.findall(r"^\| `[a-z_]+` \|.*$", _section(), flags=re.MULTILINE)
    assert [row for row in rows if not re.fullmatch(r"\| `\w+` \| [^|]{10,} \| [^|]{5,} \|", row)] == []


def test_every_exit_code_of_the_digital_twin_is_documented() -> None:
    """The table of exit codes has those of all commands, of signals, and of `exec --stream`, and no other."""
    text = (DOCS / "digital-twin-cli.md").read_text(encoding="utf-8")
    table = text.partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    rows = {int(code) for code in re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)}
    general = {cli.PASS, cli.FAIL, cli.ERROR, *(cli.Interrupted(number).exit_code for number in cli.SIGNALS)}
    streamed = {cli.TIMED_OUT, cli.NOT_RUN, cli.NOT_EXECUTABLE, cli.NOT_FOUND}
    assert rows == general | streamed


def test_the_page_of_the_digital_twin_has_every_command() -> None:
    """The table of commands in digital-twin.md has each command of the program, and no other."""
    text = (DOCS / "digital-twin.md").read_text(encoding="utf-8")
    table = text.partition("\n| Command | What it does |\n")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[1:]]
    found = [span.split()[0] for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    assert sorted(found) == sorted(cli.main.commands)
