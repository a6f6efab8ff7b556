"""The documentation is true: its code runs, its links lead somewhere, and it leaves no public name out."""

import ast
import importlib.util
import marshal
import os
import re
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import amplifier_core
from amplifier_app_cli.known_events import known_events
from amplifier_core.events import ALL_EVENTS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
READMES = [ROOT / package / "README.md" for package in ("amplifier-foundation", "amplifier-digital-twin")]
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *READMES])
#: Written by programs, from measurements.
REPORTS = {DOCS / "benchmarks.md", DOCS / "reliability.md"}

LINK = re.compile(r"(?<!\!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} (.+)$")
#: Commands that install something, or build a universe to do so.
INSTALLS = re.compile(r"^(amplifier-digital-twin (check|launch)|(python3? -m )?pip|uv|docker|podman) ", re.MULTILINE)

#: The scripts that pages run and that can be forked from a process which has imported most of them.
SCRIPTS = ("amplifier", "amplifier-core", "pytest")
#: What stands for one of them: sends its streams, arguments, folder and environment to where it is forked. What runs in
#: the background may be killed, and is the script itself; a shell lets it ignore SIGINT.
STAND_IN = """\
#!{python} -IS
import _signal, _socket, marshal, posix, sys

if _signal.getsignal(_signal.SIGINT) == _signal.SIG_IGN:
    posix.execv({script!r}, [{script!r}, *sys.argv[1:]])
connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
connection.connect({address!r})
order = marshal.dumps((["-c", {code!r}, *sys.argv[1:]], posix.getcwd(), dict(posix.environ)))
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1, 2))
connection.sendmsg([len(order).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
connection.sendall(order)
sys.exit(int(connection.recv(8)))
"""
#: What scripts do, and what runs a page with warnings as errors.
SCRIPT = "import sys; del sys.path[0]; sys.argv[0] = {name!r}; from {module} import {attr}; sys.exit({attr}())"
PAGE_RUNNER = (
    "import runpy, sys, warnings; warnings.simplefilter('error'); runpy.run_path({path!r}, run_name='__main__')"
)

Popen = Callable[..., subprocess.Popen[str]]
RunPage = Callable[[Path], subprocess.CompletedProcess[str]]


def _load_runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_run_page", DOCS / "run_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


runner = _load_runner()


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def _runs_code(page: Path) -> bool:
    return any(block.language in {"python", "bash"} for block in runner.read_blocks(page))


def _in_its_lane(page: Path) -> Any:
    """Return a page as a parameter; one that installs something belongs to the system lane."""
    installs = any(block.language == "bash" and INSTALLS.search(block.text) for block in runner.read_blocks(page))
    return pytest.param(page, marks=pytest.mark.system if installs else ())


def _prose(page: Path) -> Iterator[str]:
    """Yield the lines of a page that are not inside a fenced block."""
    inside = False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield line


class _Scripts(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Runs what those that stand for scripts ask for."""

    def __init__(self, address: str, popen: Popen) -> None:
        self.popen = popen
        super().__init__(address, _Order)


class _Order(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        """Run Python with the streams, arguments, folder and environment that were sent, and send its exit status."""
        length, streams, _, _ = socket.recv_fds(self.request, 4, 3)
        with self.request.makefile("rb") as file:
            arguments, folder, environment = marshal.loads(file.read(int.from_bytes(length, "big")))
        assert isinstance(self.server, _Scripts)
        process = self.server.popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
            **dict(zip(("stdin", "stdout", "stderr"), streams, strict=True)),
        )
        for stream in streams:
            os.close(stream)
        code = process.wait()
        with suppress(BrokenPipeError):  # the page has given up
            self.request.sendall(str(code if code >= 0 else 128 - code).encode())


@pytest.fixture
def scripts(popen: Popen) -> Iterator[Path]:
    """Return a folder with what stands for scripts, to be found before them."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/socket"
        for entry in entry_points(group="console_scripts"):
            if entry.name in SCRIPTS:
                script = str(Path(sys.executable).parent / entry.name)
                code = SCRIPT.format(name=script, module=entry.module, attr=entry.attr)
                file = Path(folder, entry.name)
                text = STAND_IN.format(python=sys.executable, script=script, code=code, address=address)
                file.write_text(text, encoding="utf-8")
                file.chmod(0o755)
        with _Scripts(address, popen) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            yield Path(folder)
            server.shutdown()
            thread.join()


@pytest.fixture
def run_page(popen: Popen, scripts: Path, tmp_path: Path) -> RunPage:
    """Return a function that runs a page in a process of its own, as a reader would, with warnings as errors."""
    found = os.pathsep.join((str(scripts), str(Path(sys.executable).parent), os.environ["PATH"]))

    def run(page: Path) -> subprocess.CompletedProcess[str]:
        process = popen(
            [sys.executable, "-c", PAGE_RUNNER.format(path=str(DOCS / "run_page.py")), str(page)],
            cwd=tmp_path,
            env={**os.environ, "PATH": found},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            out, error = process.communicate(timeout=280)
        return subprocess.CompletedProcess(process.args, process.returncode, out, error)

    return run


def _write_page(tmp_path: Path, text: str) -> Path:
    page = tmp_path / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


@pytest.mark.timeout(900)  # the page of the digital twin installs the whole product, twice
@pytest.mark.parametrize("page", [_in_its_lane(page) for page in PAGES if _runs_code(page)], ids=_name)
def test_every_block_of_a_page_does_what_the_page_says(page: Path, run_page: RunPage) -> None:
    """The code of a page runs, in the page's order, in an empty folder."""
    done = run_page(page)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nassert 1 == 2\n```\n", "AssertionError"),
        ("```python\nraise ValueError('x')\n```\n", "ValueError"),
        ("```python\nx = 1\n```\n\n```python\nassert x\n```\n", "NameError"),
        ("```python\nprint('a')\n```\n\n```text output\nb\n```\n", "the page says"),
        ("```bash\nfalse\n```\n", "exit status 1"),
        ("```bash exit=1\ntrue\n```\n", "exit status 0"),
        ("```bash\nmake coffee\n```\n", "no target coffee"),
        ("```toml\nx = \n```\n", "TOMLDecodeError"),
        ("```rust\nfn main() {}\n```\n", "do not know"),
        ("```\nnameless\n```\n", "do not know"),
        ("```python\nx = 1\n", "never closed"),
    ],
)
def test_the_page_runner_notices(text: str, complaint: str, run_page: RunPage, tmp_path: Path) -> None:
    """A page that is not true fails, and the complaint says why and where."""
    done = run_page(_write_page(tmp_path, text))
    assert done.returncode == 1
    assert complaint in done.stderr
    assert "page.md:" in done.stderr


def test_the_page_runner_keeps_names_files_and_top_level_await(run_page: RunPage, tmp_path: Path) -> None:
    """`continue` shares names, `file=` makes importable files, and `await` works at the top level."""
    text = (
        "```python file=helper.py\nNUMBER = 7\n```\n\n"
        "```python\nimport asyncio, helper\nawait asyncio.sleep(0)\n```\n\n"
        "```python continue\nassert helper.NUMBER == 7\nprint('seven')\n```\n\n"
        "```text output\nseven\n```\n"
    )
    done = run_page(_write_page(tmp_path, text))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if _runs_code(page)], ids=_name)
def test_every_python_block_can_fail(page: Path) -> None:
    """Each Python block asserts something, has its output compared, or is carried on by a block that does."""
    blocks = runner.read_blocks(page)
    for number, block in enumerate(blocks):
        if block.language != "python":
            continue
        after = blocks[number + 1 :]
        path = block.option("file")
        if path is not None:
            package = path.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2]
            module_id = package.removeprefix("amplifier_module_").replace("_", "-")
            users = [b for b in after if package in b.text or module_id in b.text]
            assert users, f"{block.where}: no block after it uses {path}"
        else:
            following = after[0] if after else None
            compared = following is not None and following.language == "text" and "output" in following.options
            carried_on = following is not None and "continue" in following.options
            closes = "cleanup()" in block.text and "continue" in block.options
            assert "assert" in block.text.lower() or compared or carried_on or closes, f"{block.where} cannot fail"


def test_a_quoted_example_is_the_example() -> None:
    """A page that shows a file of examples/ shows it as it is."""
    quoted = 0
    for page in PAGES:
        for block in runner.read_blocks(page):
            path = block.option("file")
            if path is not None and (EXAMPLES / path).is_file():
                quoted += 1
                assert block.text == (EXAMPLES / path).read_text(encoding="utf-8"), block.where
    assert quoted >= 2


def _readme_example() -> tuple[str, str]:
    blocks = runner.read_blocks(ROOT / "README.md")
    [code] = [block.text for block in blocks if block.language == "python"]
    [output] = [block.text for block in blocks if "output" in block.options]
    return code, output


def test_the_readme_shows_the_embedding_example() -> None:
    """The Python block of the README and examples/embed.py are the same text."""
    code, _ = _readme_example()
    assert code == (EXAMPLES / "embed.py").read_text(encoding="utf-8")


def test_the_embedding_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    """`make embed` runs examples/embed.py, which prints what the README shows."""
    _, output = _readme_example()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^embed:.*\n\t.*examples/embed\.py$", makefile, flags=re.MULTILINE)
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "embed.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == output.strip()
    assert done.stderr == ""


EXAMPLE_MODULES = {
    "tool": "amplifier_module_tool_words",
    "provider": "amplifier_module_provider_scripted",
    "context": "amplifier_module_context_tiny",
    "orchestrator": "amplifier_module_loop_tiny",
}


def test_every_example_module_is_known() -> None:
    """The modules in examples/ are those that the next test checks."""
    assert {path.name for path in EXAMPLES.glob("amplifier_module_*")} == set(EXAMPLE_MODULES.values())


@pytest.mark.parametrize("kind", EXAMPLE_MODULES)
def test_example_modules_pass_the_conformance_kit(kind: str, popen: Popen, tmp_path: Path) -> None:
    """What we show as an example passes the structural and behavioral tests that we give to module authors."""
    name = kind.title()
    (tmp_path / "test_example.py").write_text(
        f"from amplifier_core.validation.behavioral import {name}BehaviorTests\n"
        f"from amplifier_core.validation.structural import {name}StructuralTests\n\n\n"
        f"class TestBehavior({name}BehaviorTests):\n    pass\n\n\n"
        f"class TestStructure({name}StructuralTests):\n    pass\n",
        encoding="utf-8",
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n", encoding="utf-8")
    process = popen(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"),
            *("--module-path", str(EXAMPLES / EXAMPLE_MODULES[kind])),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        said, _ = process.communicate(timeout=110)
    assert process.returncode == 0, said
    # Two tests look at internal methods of contexts that compact; ours does not.
    assert ("skipped" in said) == (kind == "context"), said


def _anchor(heading: str) -> str:
    """Return the anchor that a heading gets where the pages are shown."""
    text = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def _anchors(page: Path) -> set[str]:
    return {_anchor(found[1]) for line in _prose(page) if (found := HEADING.match(line))}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_internal_links_resolve(page: Path) -> None:
    """Every link to a file of the repository, and to a heading in it, leads somewhere."""
    for line in _prose(page):
        for target in LINK.findall(line):
            if target.startswith(("https://", "http://")):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            assert file.is_relative_to(ROOT), f"{target} leads out of the repository"
            assert file.exists() or file in REPORTS, f"{target} does not exist"
            if anchor and file.exists():
                assert anchor in _anchors(file), f"{_name(file)} has no heading #{anchor}"


def test_every_page_is_reachable() -> None:
    """A reader who starts at the README can follow links to every page."""
    reached, waiting = set[Path](), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = [t.partition("#")[0] for line in _prose(page) for t in LINK.findall(line) if "://" not in t]
        found = [(page.parent / target).resolve() for target in targets if target.endswith(".md")]
        waiting.extend(file for file in found if file.exists())
    assert {_name(page) for page in PAGES} - {_name(page) for page in reached} - set(map(_name, REPORTS)) == set()


def _code_words() -> set[str]:
    """Return every word that a page of ours uses as code: in a block or between backticks."""
    code = [block.text for page in PAGES for block in runner.read_blocks(page)]
    code += [span for page in PAGES for span in re.findall(r"`([^`]+)`", "\n".join(_prose(page)))]
    return set(re.findall(r"\w+", "\n".join(code)))


def test_every_public_name_is_documented() -> None:
    """Each name of amplifier_core.__all__ is mentioned on some page."""
    assert set(amplifier_core.__all__) - _code_words() == set()


def test_every_validator_error_class_and_plan_key_is_documented() -> None:
    """What the public submodules offer beyond the top level is mentioned too."""
    from amplifier_core import correlation, llm_errors, loader, testing, validation

    names: set[str] = set()
    for module in (llm_errors, loader, testing, validation):
        names.update(getattr(module, "__all__", ()))
    names.update(name for name in vars(correlation) if name.endswith("_request_id") and not name.startswith("_"))
    allowed = {"TYPE_TO_MOUNT_POINT"}  # a table for tools; module-sources.md tells it in words
    assert names - _code_words() - allowed == set()


def _event_rows() -> list[dict[str, Any]]:
    row = re.compile(r"^\| (\d+) \| `([a-z_]+:[a-z_]+)` \| (.+?) \| (.+?) \|$")
    found = [row.match(line) for line in _prose(DOCS / "contracts" / "events.md")]
    return [{"number": int(m[1]), "event": m[2], "who": m[3], "payload": m[4]} for m in found if m]


def test_the_event_table_is_the_list_of_events() -> None:
    """events.md lists every canonical event, in order, with its number, its emitter and its payload."""
    rows = _event_rows()
    assert [row["event"] for row in rows] == ALL_EVENTS
    assert [row["number"] for row in rows] == list(range(1, len(ALL_EVENTS) + 1))
    assert all("`" in row["payload"] or row["payload"] == "free" for row in rows)


#: Texts that look like the names of events: fields of messages, keys of contributions, and the kernel's own test event.
_NOT_EVENTS = re.compile(r"(anthropic|chat|gemini|ollama|openai|goal|hook|no|w|test):[a-z_-]+|(delegate|session):past")


def _further_events() -> list[str]:
    row = re.compile(r"^\| `([a-z-]+:[a-z_-]+)` \| .+ \| .+ \|$")
    found = [row.match(line) for line in _prose(DOCS / "contracts" / "events.md")]
    return [match[1] for match in found if match]


def _names_in_source() -> dict[str, Path]:
    """Return every text in the product's source that has the form of an event's name, and where it is."""
    packages = ("core", "kit", "foundation")
    files = [path for one in packages for path in (ROOT / f"amplifier-{one}" / f"amplifier_{one}").rglob("*.py")]
    files += ROOT.glob("modules/*/amplifier_module_*/**/*.py")
    app = (ROOT / "amplifier-app-cli" / "amplifier_app_cli").rglob("*.py")
    # The app's tables of commands have the same form; its events are in the files that emit.
    files += [path for path in app if "hooks.emit(" in path.read_text(encoding="utf-8")]
    return {
        node.value: path
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.fullmatch(r"[a-z][a-z-]*:[a-z][a-z_-]*", node.value) and not _NOT_EVENTS.fullmatch(node.value)
    }


def test_every_event_has_a_row() -> None:
    """events.md has one row for every event that the product emits, and none for what it does not know."""
    further, known = _further_events(), _names_in_source()
    assert len(set(further)) == len(further)
    assert set(known) - set(ALL_EVENTS) - set(further) == set()
    assert known_events() == {*ALL_EVENTS, *further}
    # The log builds the name of the one that ends a child whose end was never emitted.
    assert set(further) - set(known) == {"task:agent_cancelled"}


def test_event_names_on_the_pages_are_canonical_or_declared() -> None:
    """A canonical namespace is never used with an action that does not exist."""
    namespaces = {event.partition(":")[0] for event in ALL_EVENTS}
    extra = set(_further_events())
    for page in PAGES:
        for namespace, action in re.findall(r"`([a-z_]+):([a-z_]+)[` ]", page.read_text(encoding="utf-8")):
            event = f"{namespace}:{action}"
            assert namespace not in namespaces or event in {*ALL_EVENTS, *extra}, f"{_name(page)}: {event}"


def test_the_five_adoption_steps_are_there() -> None:
    """The lifecycle page has its name and the five steps that a module author follows."""
    text = (DOCS / "contracts" / "lifecycle.md").read_text(encoding="utf-8")
    assert text.startswith("# Module Lifecycle: on_session_ready()\n")
    steps = re.findall(r"^(\d)\. \*\*", text, flags=re.MULTILINE)
    assert steps == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("page", ["docs/architecture.md", "amplifier-core/README.md"])
def test_maps_name_files_that_exist(page: str) -> None:
    """Every file and folder that a map of the code names is there."""
    named = re.findall(
        r"`([\w./-]+(?:\.py|/))`|`((?:amplifier_\w+|modules)/[\w./-]+)`", (ROOT / page).read_text("utf-8")
    )
    names = {one or other for one, other in named}
    sources = [*ROOT.glob("amplifier-*/amplifier_*"), *ROOT.glob("modules/*/amplifier_module_*"), ROOT]
    assert len(names) > 20
    for name in names:
        rooted = any((package.parent / name).exists() for package in sources)
        inside = any(found for package in sources[:-1] for found in package.rglob(name.rstrip("/")))
        assert rooted or inside or (ROOT / name).exists(), name


def test_the_kernel_map_names_every_file() -> None:
    """The README of the kernel says what each of its files is for."""
    text = (ROOT / "amplifier-core" / "README.md").read_text(encoding="utf-8")
    files = [path.name for path in (ROOT / "amplifier-core" / "amplifier_core").glob("*.py")]
    assert [name for name in files if f"`{name}`" not in text and name != "__init__.py"] == []
