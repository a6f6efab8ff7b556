"""The documentation of our programs says what they have: commands and options, and `amplifier` error and exit codes."""

import ast
import importlib.util
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import click
import pytest

from amplifier_app_cli import exits
from amplifier_app_cli.chat.commands import TABLE

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("amplifier-*/README.md")])
SOURCES = sorted(
    path
    for package in ("amplifier-foundation/amplifier_foundation", "amplifier-app-cli/amplifier_app_cli")
    for path in (ROOT / package).rglob("*.py")
)
TWIN = DOCS / "digital-twin.md"
TWIN_SOURCES = sorted((ROOT / "amplifier-digital-twin" / "amplifier_digital_twin").rglob("*.py"))
#: What precedes the name of the program where it is not the command that runs.
NOT_RUN = re.compile(r"(?:^|\s)(?:install|upgrade|uninstall|which|cd|-v|-m)\s+$")
#: What stands for more than is written.
PLACEHOLDER = re.compile(r"\.\.\.|…|^\[|^COMMAND$")


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"reference_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


reference = _load("make_cli_reference")
runner = _load("run_page")
PROGRAMS: dict[str, click.Group] = {each.name: each.program for each in reference.REFERENCES}
WRITTEN = [each.page for each in reference.REFERENCES]


# -- which commands a text has --


def _words(text: str) -> list[str]:
    """Return the words of the command that a text begins with, up to where the shell ends it."""
    words, word, quote, depth = list[str](), "", "", 0
    for character in text:
        if depth:  # a command inside of it is looked at by itself
            depth += {"(": 1, ")": -1}.get(character, 0)
        elif quote:
            quote = "" if character == quote else quote
            word += character if quote else ""
        elif character in "'\"":
            quote, word = character, word or "\0"
        elif character == "(" and word.endswith("$"):
            depth = 1
        elif character in "|;&)<>#`\n" and not (character == "#" and word):
            word = "" if character in "<>" and word.isdecimal() else word  # as in 2>&1
            break
        elif character.isspace():
            words, word = ([*words, word] if word else words), ""
        else:
            word += character
    return [each.removeprefix("\0") for each in ([*words, word] if word else words)]


def _commands(text: str) -> Iterator[list[str]]:
    """Yield every command of ours that a shell would run: the name of the program, and the words behind it."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for found in re.finditer(rf"(?<![\w./~-])({'|'.join(PROGRAMS)})(?=\s|$|[)`|;&])", joined):
        line = joined[: found.start()].rpartition("\n")[2]
        if not NOT_RUN.search(line) and "#" not in line:
            yield [found[1], *_words(joined[found.end() :])]


def _blocks(page: Path) -> Iterator[tuple[str, str]]:
    for block in runner.read_blocks(page):
        if block.language == "bash" or (page in (*WRITTEN, TWIN) and block.language == "text"):
            yield block.where, block.text


def _spans(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the inline code of a page that begins with a program's name, a line break in it or not."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for span in re.findall(r"`([^`]+)`", prose):
        text = " ".join(span.replace("\\|", "|").split())
        text = _in_full(text) if page == TWIN else text
        if text.partition(" ")[0] in PROGRAMS:
            yield page.name, text


def _in_full(text: str) -> str:
    """Return a command with the name of its program, which goes without saying where all is about the digital twin."""
    is_short = text.partition(" ")[0] in PROGRAMS["amplifier-digital-twin"].list_commands(click.Context(click.Group()))
    return f"amplifier-digital-twin {text}" if is_short else text


@cache
def _nodes(path: Path) -> list[ast.AST]:
    """Return everything in a source file."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _messages() -> Iterator[tuple[str, str]]:
    """Yield the commands that messages of the programs themselves name in backticks."""
    for path in (*SOURCES, *TWIN_SOURCES):
        for node in _nodes(path):
            if isinstance(node, ast.JoinedStr):
                parts = [str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                parts = [node.value]
            else:
                continue
            for span in re.findall(r"`([^`]+)`", "".join(parts)):
                text = " ".join(span.split())
                text = _in_full(text) if path in TWIN_SOURCES else text
                if text.partition(" ")[0] in PROGRAMS:
                    yield f"{path.name}:{node.lineno}", text


# -- whether the program has them --


def _fault(words: list[str]) -> str | None:
    """Return what is wrong with the words of a command, None when its program understands them."""
    name, *waiting = words
    command: click.Command = PROGRAMS[name]
    context = click.Context(command, info_name=name)
    positional = 0
    while waiting:
        word = waiting.pop(0)
        if PLACEHOLDER.search(word) or word == "--":
            return None
        if command is PROGRAMS["amplifier"] and _is_for_run(word):
            command = cast(click.Command, PROGRAMS["amplifier"].get_command(context, "run"))
            context = click.Context(command, info_name="run", parent=context)
        if word.startswith("-") and word != "-":
            option = _option(command, context, word.partition("=")[0])
            if option is None:
                return f"`{context.command_path}` has no option {word}"
            if _takes_value(option, waiting) and "=" not in word:
                del waiting[: option.nargs]
        elif isinstance(command, click.Group):
            child = command.get_command(context, word)
            if child is None:
                return f"`{context.command_path}` has no command {word}"
            command, context = child, click.Context(child, info_name=word, parent=context)
        else:
            positional += 1
    takes = [each.nargs for each in command.params if isinstance(each, click.Argument)]
    if -1 not in takes and positional > sum(takes):
        return f"`{context.command_path}` takes {sum(takes)} arguments, not {positional}"
    return None


def _is_for_run(word: str) -> bool:
    """Return whether the program gives a word to `run`: several words, or an option that `run` alone has."""
    program = PROGRAMS["amplifier"]
    context = click.Context(program)
    if not word.startswith("-"):
        return len(word.split()) > 1
    run = cast(click.Command, program.get_command(context, "run"))
    name = word.partition("=")[0]
    return _option(program, context, name) is None and _option(run, click.Context(run), name) is not None


def _option(command: click.Command, context: click.Context, name: str) -> click.Option | None:
    options = [each for each in command.get_params(context) if isinstance(each, click.Option)]
    return next((each for each in options if name in (*each.opts, *each.secondary_opts)), None)


def _takes_value(option: click.Option, waiting: list[str]) -> bool:
    if option.is_flag or option.count:
        return False
    is_optional = getattr(option, "_flag_needs_value", False)
    return not is_optional or bool(waiting and not waiting[0].startswith("-"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("amplifier sesion list", "no command sesion"),
        ("amplifier session lst --all-projects", "no command lst"),
        ("amplifier session list --every", "no option --every"),
        ("echo hi | amplifier run --budle x -", "no option --budle"),
        ('x="$(amplifier session show 3f2a --frmat json)"', "no option --frmat"),
        ("amplifier version please", "takes 0 arguments"),
        ('amplifier "several words" --bogus', "no option --bogus"),
        ("amplifier --bundel team", "no option --bundel"),
        ("amplifier run \\\n  --bogus hello", "no option --bogus"),
        ("amplifier-digital-twin lunch x.yaml", "`amplifier-digital-twin` has no command lunch"),
        ("amplifier-digital-twin exec x --steam -- ls", "no option --steam"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(text: str, complaint: str) -> None:
    """A wrong command, option or number of arguments is found wherever it stands in a line of shell."""
    assert complaint in str([_fault(words) for words in _commands(text)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('amplifier run "a | b; c" | head', [["amplifier", "run", "a | b; c"]]),
        ("amplifier-digital-twin list; ls", [["amplifier-digital-twin", "list"]]),
        ("uv tool install amplifier\ncd amplifier && ls", []),
        ("rm -rf ~/.amplifier; ls amplifier-core", []),
        ("# amplifier nonsense", []),
        ('amplifier run --resume "$(amplifier session fork 3f --at-turn 1)" hi', None),
        ("amplifier run '' < /dev/null", [["amplifier", "run", ""]]),
    ],
)
def test_commands_are_told_from_other_words(text: str, expected: list[list[str]] | None) -> None:
    """What a shell would not run is no command, and what it would run is one, also inside of another."""
    found = list(_commands(text))
    assert found == expected if expected is not None else len(found) == 2
    assert [_fault(words) for words in found] == [None] * len(found)


def test_every_documented_command_exists() -> None:
    """Every command in a shell block, in inline code and in the generated examples is understood as it stands."""
    texts = [each for page in PAGES for part in (_blocks, _spans) for each in part(page)]
    found = [(where, words) for where, text in texts for words in _commands(text)]
    assert len([words for _, words in found if words[0] == "amplifier"]) > 200
    assert len([where for where, words in found if where.startswith(TWIN.name) and words[0] != "amplifier"]) > 30
    assert [f"{where}: {fault}" for where, words in found if (fault := _fault(words))] == []


def test_every_command_that_a_message_names_exists() -> None:
    """What the program tells its user to run next can be run."""
    found = [(where, words) for where, text in _messages() for words in _commands(text)]
    assert len(found) > 20
    assert [f"{where}: {fault}" for where, words in found if (fault := _fault(words))] == []


# -- the reference --


@pytest.mark.parametrize("each", reference.REFERENCES, ids=lambda each: each.name)
def test_the_command_reference_is_fresh(each: Any) -> None:
    """The page of a program's commands is what the program says today; `make reference` writes it."""
    assert each.page.read_text(encoding="utf-8") == reference.text(each), "run `make reference`"


def test_a_stale_command_reference_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--check` changes nothing and exits with 1 when a page is old, with 0 when none is."""
    moved = [each._replace(page=tmp_path / each.page.name) for each in reference.REFERENCES]
    monkeypatch.setattr(reference, "REFERENCES", moved)
    assert reference.main([]) == 0
    assert reference.main(["--check"]) == 0
    for each in moved:
        each.page.write_text("old\n", encoding="utf-8")
        assert reference.main(["--check"]) == 1
        assert each.page.read_text(encoding="utf-8") == "old\n"
        assert reference.main([]) == 0
        assert each.page.read_text(encoding="utf-8") == reference.text(each)


def test_the_config_reference_is_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has every config key of every module as the modules declare them; `--check` notices an old page."""
    config = _load("make_config_reference")
    assert config.PAGE.read_text(encoding="utf-8") == config.page(), "run `make reference`"
    monkeypatch.setattr(config, "PAGE", tmp_path / "config.md")
    monkeypatch.setattr(sys, "argv", ["make_config_reference.py", "--check"])
    assert config.main() == 1


def test_the_table_of_modules_is_fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has every module with the description of its package; `--check` notices an old page."""
    table = _load("make_module_table")
    assert table.PAGE.read_text(encoding="utf-8") == table.page(), "run `make reference`"
    for module in ROOT.glob("modules/*/pyproject.toml"):
        assert f"| [{module.parent.name}](" in table.page()
    monkeypatch.setattr(table, "ROOT", tmp_path)
    monkeypatch.setattr(table, "PAGE", tmp_path / "README.md")
    assert table.main(["--check"]) == 1
    assert table.main([]) == 0
    assert table.main(["--check"]) == 0


def test_every_command_has_examples() -> None:
    """Each command shows how it is used; one that has two places shows it for one of them."""
    for context in reference.commands(reference.AMPLIFIER):
        paths = {context.command_path, f"amplifier {context.info_name}".removesuffix(" amplifier")}
        assert any(re.search(rf"^ *(.*[|(] *)?{path}\b", context.command.help, re.MULTILINE) for path in paths), paths


# -- codes --


def _class_codes() -> dict[str, str]:
    """Return the code of every class that is a FoundationError, found without importing any."""
    bases: dict[str, set[str]] = {}
    codes: dict[str, str] = {}
    for path in SOURCES:
        for node in _nodes(path):
            if not isinstance(node, ast.ClassDef):
                continue
            bases.setdefault(node.name, set()).update(base.id for base in node.bases if isinstance(base, ast.Name))
            for line in node.body:
                target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
                value = getattr(line, "value", None)
                if isinstance(target, ast.Name) and target.id == "code" and isinstance(value, ast.Constant):
                    codes[node.name] = str(value.value)
    return {name: code for name, code in codes.items() if _is_foundation_error(name, bases)}


def _is_foundation_error(name: str, bases: dict[str, set[str]]) -> bool:
    return name == "FoundationError" or any(_is_foundation_error(base, bases) for base in bases.get(name, ()))


def _spoken_codes() -> set[str]:
    """Return the codes that the program gives to faults that have none of their own."""
    nodes = [node for path in SOURCES for node in _nodes(path)]
    return {code for node in nodes for code in (*_code_in_call(node), *_code_in_record(node))}


def _code_in_call(node: ast.AST) -> Iterator[str]:
    """Yield the code of `Failure("x", …)`, `Outcome.failed("x", …)` and `Outcome(…, error_type="x")`."""
    if not isinstance(node, ast.Call):
        return
    is_failure = getattr(node.func, "id", getattr(node.func, "attr", "")) in ("Failure", "failed")
    given = [
        *(node.args[:1] if is_failure else ()),
        *(each.value for each in node.keywords if each.arg == "error_type"),
    ]
    yield from (each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _code_in_record(node: ast.AST) -> Iterator[str]:
    """Yield the code of `{"status": "error", "code": "x", …}`."""
    if not isinstance(node, ast.Dict):
        return
    pairs = [each for each in zip(node.keys, node.values, strict=True) if isinstance(each[1], ast.Constant)]
    named = {key.value: getattr(value, "value", None) for key, value in pairs if isinstance(key, ast.Constant)}
    code = named.get("code")
    if named.get("status") == "error" and isinstance(code, str):
        yield code


def _rows(page: str, heading: str = "") -> list[str]:
    """Return the first cells of the tables of a page, or of one section of it."""
    text = (DOCS / page).read_text(encoding="utf-8")
    text = text.partition(f"\n{heading}\n")[2].partition("\n## ")[0] if heading else text
    return re.findall(r"^\| `?([^`|]+?)`? \|", text, flags=re.MULTILINE)


def test_every_error_code_is_documented() -> None:
    """errors.md has a row for each stable code of `amplifier`, and none for a code that is gone."""
    codes = {*_class_codes().values(), *_spoken_codes()}
    assert len(codes) > 50
    every, twins = _rows("errors.md"), _rows("errors.md", "## The digital twin")
    assert twins == every[-len(twins) :]
    rows = [row for row in every[: -len(twins)] if re.fullmatch(r"[a-z_]+", row)]
    assert sorted(rows) == sorted(codes)


def test_an_error_class_has_a_code_of_its_own() -> None:
    """Two classes never share a code: a program that reads it must know what happened."""
    codes = list(_class_codes().values())
    assert sorted(codes) == sorted(set(codes))


@pytest.mark.parametrize("page", ["guide.md", "running.md"])
def test_every_exit_code_is_documented(page: str) -> None:
    """The table of exit codes has each code of the program, and no other."""
    known = {value for name, value in vars(exits).items() if name.isupper()}
    rows = {int(row) for row in _rows(page, "## Exit codes") if row.isdecimal()}
    assert rows == known


def test_every_slash_command_is_documented() -> None:
    """The guide has a row for each command of the chat, typed as the program says, and for no other."""
    known = {command.usage for command in TABLE.values() if command.summary != "Not in this release."}
    text = (DOCS / "guide.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(/.+?)` \|", text, flags=re.MULTILINE)
    assert {row.replace("\\|", "|") for row in rows} == {*known, "/exit"}
