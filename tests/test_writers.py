"""What the product writes to a disk goes through one module, without secrets; each other writer has its reason here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
WRITER: Final = "amplifier-kit/amplifier_kit/guard/private_files.py"
PACKAGES: Final = ("amplifier-kit", "amplifier-core", "amplifier-foundation", "amplifier-app-cli")
TWIN: Final = "amplifier-digital-twin"

_LOCK: Final = "a lock: it holds a process number at most"
_FETCHED: Final = "fetched sources, kept as they came"
_CHECKPOINT: Final = "checkpoints, restored byte for byte"
_ELSEWHERE: Final = "the system's temporary files, for their owner alone and deleted after use"
_UNIVERSE: Final = "files of a universe, or of the cache that universes are made from"
_STREAMS: Final = "standard streams of a process, or memory"
_LOG: Final = "the log: records pass the redactors of the session before it gets them"

#: Files that write in their own way, and why they may.
ALLOWED: Final = {
    WRITER: "the writer itself",
    "amplifier-kit/amplifier_kit/guard/files/configured_file.py": "opens for others, which mask what they append",
    "amplifier-kit/amplifier_kit/guard/files/changes.py": "files of the project, written as the tools were asked",
    "amplifier-kit/amplifier_kit/guard/git.py": _ELSEWHERE,
    "amplifier-kit/amplifier_kit/log/blobs.py": _LOG,
    "amplifier-kit/amplifier_kit/log/writer.py": _LOG,
    "amplifier-kit/amplifier_kit/log/references.py": "hashes of what is in the log",
    "amplifier-kit/amplifier_kit/log/files.py": _LOCK,
    "amplifier-kit/amplifier_kit/guard/processes/launch.py": "memory files; the system's temporary files",
    "amplifier-kit/amplifier_kit/guard/sandbox/placeholders.py": "placeholders in a project, of fixed content",
    "modules/hooks-notify/amplifier_module_hooks_notify/desktop.py": "the terminal, a masked text",
    "amplifier-foundation/amplifier_foundation/subprocess_runner.py": "the pipe to the process that started it",
    "amplifier-foundation/amplifier_foundation/files.py": "locks; files of the user's own, to which no secret is added",
    "amplifier-foundation/amplifier_foundation/io.py": "what an app of another author asks it to write",
    "amplifier-foundation/amplifier_foundation/yaml_edit.py": "settings, whose secrets go to the keys, and rules",
    "amplifier-foundation/amplifier_foundation/settings/keys.py": "keys.env: what secrets are kept in",
    "amplifier-foundation/amplifier_foundation/sessions/checkpoints.py": _CHECKPOINT,
    "amplifier-foundation/amplifier_foundation/sessions/file_states.py": _CHECKPOINT,
    "amplifier-foundation/amplifier_foundation/sessions/log.py": "copies lines and blobs of a masked log",
    "amplifier-foundation/amplifier_foundation/sessions/export.py": "where the user says; tar is as it is",
    "amplifier-foundation/amplifier_foundation/sessions/store.py": "a list made of metadata, which is masked",
    "amplifier-foundation/amplifier_foundation/sources/archive.py": _FETCHED,
    "amplifier-foundation/amplifier_foundation/sources/staging_folder.py": _FETCHED,
    "amplifier-foundation/amplifier_foundation/sources/download.py": _FETCHED,
    "amplifier-foundation/amplifier_foundation/sources/activation.py": _FETCHED,
    "amplifier-foundation/amplifier_foundation/sources/module_project.py": _FETCHED,
    "amplifier-app-cli/amplifier_app_cli/ui/approval/edit.py": _ELSEWHERE,
    "amplifier-app-cli/amplifier_app_cli/chat/prompt_input.py": "reads by prompt_toolkit's class, writes by the writer",
    "amplifier-app-cli/amplifier_app_cli/commands/completion.py": "the settings of the user's shell",
    "amplifier-app-cli/amplifier_app_cli/commands/module/validate.py": _ELSEWHERE,
    "amplifier-app-cli/amplifier_app_cli/mcp/config.py": "names of variables, and no values of them",
    "amplifier-app-cli/amplifier_app_cli/commands/session/export.py": _ELSEWHERE,
    "amplifier-app-cli/amplifier_app_cli/commands/tool/mount.py": _ELSEWHERE,
    "amplifier-app-cli/amplifier_app_cli/providers/local_model.py": "model files, kept as they came",
    "amplifier-app-cli/amplifier_app_cli/providers/model_download.py": "model files, kept as they came",
    "amplifier-app-cli/amplifier_app_cli/ui/streams.py": _STREAMS,
    **{
        f"amplifier-digital-twin/amplifier_digital_twin/{name}.py": reason
        for name, reason in {
            "base_image": _UNIVERSE,
            "engines/containers": "the filter of system calls, of fixed content",
            "engines/incus": _ELSEWHERE,
            "evidence": "masked by its methods; pictures are as they are",
            "files": "files that the user copies in or out, as they are",
            "services/download_cache": "files of the package index, as they came",
            "services/git": _UNIVERSE,
            "services/mitmproxy_addon": "an empty file that says it is ready",
            "services/proxy": "standard streams of mitmproxy",
            "services/request_log": "requests, without credentials and queries",
            "processes": "standard streams of the services; requests are logged without credentials",
            "universe": _UNIVERSE,
            "wheels": _UNIVERSE,
        }.items()
    },
    "modules/hook-shell/amplifier_module_hook_shell/command.py": _ELSEWHERE,
    "modules/hook-shell/amplifier_module_hook_shell/session_hooks.py": _ELSEWHERE,
    "modules/tool-bash/amplifier_module_tool_bash/output.py": "output of commands, through RedactingStream",
    "modules/tool-mcp/amplifier_module_tool_mcp/process.py": _ELSEWHERE,
}

#: Ways of the standard library to bring bytes to a disk, by what is called.
_METHODS: Final = frozenset(("write_text", "write_bytes", "touch"))
_FUNCTIONS: Final = {
    "tempfile": {"mkstemp", "NamedTemporaryFile", "mkdtemp", "TemporaryDirectory"},
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "make_archive", "unpack_archive"},
    "sqlite3": {"connect"},
    "dbm": {"open"},
    "shelve": {"open"},
}
#: Of our own: what leaves the masking to its caller.
_UNMASKED: Final = frozenset(("replace_unmasked", "rewrite_file", "write_unmasked"))
#: Classes that write files by themselves.
_FOREIGN: Final = frozenset(("FileHistory", "FileHandler", "RotatingFileHandler", "TimedRotatingFileHandler"))
#: Modules whose `open` takes a file first, and then a mode; any other `x.open(mode)` is that of a path.
_OPENERS: Final = frozenset(("os", "io", "gzip", "bz2", "lzma", "tarfile", "codecs"))
#: Flags of `os.open` that leave a file as it is, and what they are written with.
_READING: Final = frozenset("O_" + name for name in ("RDONLY", "DIRECTORY", "PATH", "CLOEXEC", "NOFOLLOW", "NONBLOCK"))
_SPELLING: Final = frozenset(("os", "getattr", "O_NOCTTY", "O_NOATIME"))


class Source:
    """One source file, and what of it writes to a disk in its own way."""

    def __init__(self, text: str) -> None:
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        self._constants: dict[str, ast.expr] = {}
        self._origins: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    if isinstance(target, ast.Name):
                        self._constants[target.id] = node.value
            elif isinstance(node, ast.ImportFrom):
                self._origins |= {name.asname or name.name: node.module or "" for name in node.names}
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.names = {_name(call.func) for call in calls}
        bases = [(node, base) for node in nodes if isinstance(node, ast.ClassDef) for base in map(_name, node.bases)]
        self.writes = sorted(
            [f"{call.lineno}: {ast.unparse(call)[:80]}" for call in calls if self._is_write(call)]
            + [f"{node.lineno}: class {node.name}({base})" for node, base in bases if base in _FOREIGN]
        )
        if self.names & {"open_private", "open_to_append"} and not self.names & {"append", "masked", "RedactingStream"}:
            self.writes.append("it opens a private file, and masks nothing")

    def _is_write(self, call: ast.Call) -> bool:
        name = _name(call.func)
        owner = _name(call.func.value) if isinstance(call.func, ast.Attribute) else self._origins.get(name, "")
        if name in _METHODS | _UNMASKED | _FOREIGN or name in _FUNCTIONS.get(owner, ()):
            return True
        if name == "open" and owner == "os":
            file, flags = _argument(call, 0, "path"), _argument(call, 1, "flags")
            return ast.unparse(file or call) != "os.devnull" and (flags is None or not self._only_reads(flags))
        if name not in ("open", "fdopen", "ZipFile"):
            return False
        is_of_path = name == "open" and isinstance(call.func, ast.Attribute) and owner not in _OPENERS
        mode = _argument(call, 0 if is_of_path else 1, "mode")
        letters = [str(node.value) for node in ast.walk(mode or call.func) if isinstance(node, ast.Constant)]
        return any(set(text) & set("wax+") and len(text.partition(":")[0].partition("|")[0]) <= 3 for text in letters)

    def _only_reads(self, flags: ast.expr, seen: frozenset[str] = frozenset()) -> bool:
        for node in ast.walk(flags):
            name = _name(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
            if not name or name in _READING | _SPELLING or name in seen:
                continue
            if name not in self._constants or not self._only_reads(self._constants[name], seen | {name}):
                return False
        return True


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return named if named is not None else next(iter(call.args[position : position + 1]), None)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def product_sources() -> Iterator[Path]:
    """Return every source file that is installed with the product; example modules of twins run inside of twins."""
    for package in (*(ROOT / name for name in (*PACKAGES, TWIN)), *sorted((ROOT / "modules").iterdir())):
        for path in sorted(package.rglob("*.py")):
            parts = path.relative_to(package).parts
            if parts[0].startswith("amplifier_") and not {"testing", "profiles"} & set(parts):
                yield path


def test_nothing_else_writes_to_a_disk() -> None:
    """A file is written by the redacting writer, or its source stands in the table with a reason."""
    found = {path.relative_to(ROOT).as_posix(): Source(path.read_text(encoding="utf-8")) for path in product_sources()}
    assert len(found) > 500
    own = {name: source.writes for name, source in found.items() if source.writes}
    unknown = {name: lines for name, lines in own.items() if name not in ALLOWED}
    assert not unknown, f"write through {WRITER}, or say in ALLOWED why not: {unknown}"
    assert sorted(set(ALLOWED) - set(own)) == [], "these write nothing by themselves any more: take them out"


def test_the_page_names_what_is_not_masked() -> None:
    """docs/privacy.md has a list of what is kept as it is, and says that output of commands is masked."""
    page = (ROOT / "docs" / "privacy.md").read_text(encoding="utf-8")
    exceptions = page.partition("### What is kept as it is")[2].partition("\n\nEverything else")[0]
    for name in ("`keys.env`", "`checkpoints/`", "`cache/`", "`session export --as tar`", "universe"):
        assert name in exceptions
    [line] = [line for line in page.splitlines() if line.startswith("| `command-output/`")]
    assert "| yes" in line


@pytest.mark.parametrize(
    "line",
    [
        'open("f", "w")',
        'open(path, mode="ab")',
        'path.open("x")',
        "os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)",
        "os.open(path, flags)",
        'os.fdopen(number, "wb")',
        "path.write_text(text)",
        "Path(x).write_bytes(b)",
        "tempfile.mkstemp()",
        "from tempfile import NamedTemporaryFile\nNamedTemporaryFile()",
        "shutil.copyfile(a, b)",
        "sqlite3.connect(path)",
        'gzip.open(path, "wt")',
        'tarfile.open(fileobj=file, mode="w:gz")',
        'zipfile.ZipFile(path, "w")',
        "logging.FileHandler(path)",
        "class History(FileHistory): pass",
        "replace_unmasked(path, content)",
        "os.write(open_private(path), content)",
    ],
)
def test_every_way_of_writing_is_seen(line: str) -> None:
    """A source that writes in any of the ways of the standard library is found: the test above can fail."""
    assert Source(line).writes


@pytest.mark.parametrize(
    "line",
    [
        'open("w")',
        'open(path, "rb")',
        "path.open()",
        "FLAGS = os.O_RDONLY | os.O_NOFOLLOW\nos.open(path, FLAGS | os.O_CLOEXEC)",
        "os.open(os.devnull, os.O_RDWR)",
        "tarfile.open(path)",
        "zipfile.ZipFile(path)",
        "values.copy()",
        "client.connect(address)",
        "replace_file(path, content)",
        "append(open_private(path), content)",
    ],
)
def test_reading_is_no_writing(line: str) -> None:
    """What only reads, or writes through the writer, needs no reason."""
    assert not Source(line).writes
