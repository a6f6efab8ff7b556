"""Files get into prompts by one way: `amplifier_foundation.prompt.access`, which asks the rules first.

A check of the source itself, so that a second way does not come in unseen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOUNDATION = "amplifier-foundation/amplifier_foundation"
APP = "amplifier-app-cli/amplifier_app_cli"
SKILLS = "modules/tool-skills/amplifier_module_tool_skills"

#: What turns a file into text or bytes, or a folder into names.
READING = {
    "open",
    "fdopen",
    "read_text",
    "read_bytes",
    "read_document",
    "read_content",
    "open_file",
    "read_head",
    "read_regular",
}
#: What makes prompts: everything that a turn consists of.
PLACES = (
    f"{FOUNDATION}/prompt",
    f"{FOUNDATION}/bundles",
    f"{FOUNDATION}/children",
    f"{APP}/run",
    f"{APP}/chat",
    f"{APP}/ui/approval",
    SKILLS,
)
#: Files that read, and what for; those that are no part of the way read nothing that goes into a prompt unasked.
READERS = {
    f"{FOUNDATION}/prompt/text_files.py": "reads for access.py",
    f"{FOUNDATION}/prompt/access.py": "the way itself",
    f"{FOUNDATION}/bundles/file.py": "bundles; SystemPrompt asks about the file of an instruction",
    f"{FOUNDATION}/bundles/agent_file.py": "agents; SystemPrompt asks about the file of an instruction",
    f"{FOUNDATION}/bundles/modes.py": "checks mode files; what it returns are warnings for people",
    f"{FOUNDATION}/bundles/registry.py": "the registry of known bundles",
    f"{FOUNDATION}/children/results.py": "the program's own results of child sessions",
    f"{APP}/ui/approval/edit.py": "what the user's editor has left of a tool's input",
    f"{APP}/ui/approval/preview.py": "what a person is shown before a file is written",
    f"{SKILLS}/read.py": "reads for catalogue.py",
    f"{SKILLS}/catalogue.py": "asks the capability prompt.denied before it reads",
}
#: A published name for apps of other authors, whose resolver decides; no session of ours imports it.
PUBLISHED = f"{FOUNDATION}/mentions.py"
#: Who may say that text was typed.
TYPISTS = {
    f"{APP}/run/command.py": "the prompt argument",
    f"{APP}/chat/conversation.py": "the prompt argument of a chat",
    f"{APP}/chat/prompt_input.py": "what was typed key by key",
    f"{APP}/chat/screen.py": "lines of a terminal that cannot mark pastes",
}


def _called(node: ast.Call) -> tuple[str, str]:
    """Return the name that is called, and the last name before its dot."""
    if isinstance(node.func, ast.Attribute):
        of = node.func.value
        return node.func.attr, of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
    return getattr(node.func, "id", ""), ""


@cache
def _nodes(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def _calls(source: str) -> Iterator[tuple[str, str, int]]:
    for node in _nodes(source):
        if isinstance(node, ast.Call):
            yield *_called(node), node.lineno


def _imports(source: str) -> set[str]:
    return {
        f"{node.module}.{name.name}"
        for node in _nodes(source)
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }


def _faults(name: str, source: str) -> list[str]:
    """Return what is wrong with one file."""
    faults = []
    for called, of, line in _calls(source):
        is_way = called == "read_bytes" and of == "access"
        if called in READING and not is_way and name.startswith(PLACES) and name not in READERS:
            faults.append(f"{name}:{line}: {called}() reads a file: what goes into a prompt is read by PromptAccess")
        if called == "expand_prompt" and name != f"{FOUNDATION}/sessions/runtime.py":
            faults.append(f"{name}:{line}: only a session expands prompts")
        if called == "of_typed" and of in ("UserInput", "cls") and name not in TYPISTS:
            faults.append(f"{name}:{line}: only an argument and the keyboard are typed")
    if name not in (f"{FOUNDATION}/prompt/access.py", PUBLISHED):
        unasked = _imports(source) & {
            f"amplifier_foundation.prompt.text_files.{one}" for one in ("TextFiles", "read_bytes")
        }
        faults += [f"{name}: imports {one}, which reads without asking: use PromptAccess" for one in sorted(unasked)]
    return faults


def _sources() -> Iterator[tuple[str, str]]:
    for package in (FOUNDATION, APP, SKILLS):
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_files_get_into_prompts_by_one_way() -> None:
    """Nothing that makes prompts reads files itself, and nothing else says that text was typed."""
    assert [fault for name, source in _sources() for fault in _faults(name, source)] == []


def test_every_exception_is_one() -> None:
    """What is listed exists and does what it is listed for, so that the lists do not outlive their reasons."""
    sources = dict(_sources())
    for name in READERS:
        assert READING & {called for called, _, _ in _calls(sources[name])}, name
    published = {name for name, source in sources.items() if "amplifier_foundation.mentions." in str(_imports(source))}
    assert published == {f"{FOUNDATION}/__init__.py"}
    for name in TYPISTS:
        assert "of_typed" in {called for called, _, _ in _calls(sources[name])}, name


@pytest.mark.parametrize(
    ("name", "source"),
    [
        (f"{FOUNDATION}/prompt/more.py", "text = path.read_text()"),
        (f"{FOUNDATION}/children/more.py", "with open(path) as file: pass"),
        (f"{APP}/run/more.py", "content = path.read_bytes()"),
        (f"{APP}/chat/more.py", "document = read_document(path)"),
        (f"{SKILLS}/more.py", "text = read_head(path, 10)"),
        (f"{APP}/chat/more.py", "prompt = UserInput.of_typed(clipboard)"),
        (f"{FOUNDATION}/children/more.py", "await runtime.prompt.expand_prompt(task)"),
        (f"{FOUNDATION}/sessions/more.py", "from amplifier_foundation.prompt.text_files import TextFiles"),
    ],
)
def test_a_second_way_is_seen(name: str, source: str) -> None:
    """Each way around the rules that somebody may add is a fault."""
    assert _faults(name, source)
