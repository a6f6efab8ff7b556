"""`make run` shows the product at work: with the model that a run would use, or with a script that says so."""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import Sandbox
from amplifier_kit.local_model import CODER, models_folder
from amplifier_testing.llm.chat import ChatWire
from amplifier_testing.llm.script import Said
from amplifier_testing.llm.server import ModelServer

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "examples" / "demo"
SAID = "I cannot edit files."


def _run(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the demonstration as a new user without keys."""
    (home / "tmp").mkdir()
    clean = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home / "tmp"), "LANG": "C.UTF-8"}
    return subprocess.run(
        [sys.executable, str(DEMO / "demo.py"), *arguments],
        cwd=ROOT,
        env=clean | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _files() -> dict[str, bytes]:
    """Return what the demonstration consists of, without the bytecode that any import of it in another test leaves."""
    files = [path for path in DEMO.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {str(path): path.read_bytes() for path in files}


def test_make_run_runs_the_demonstration() -> None:
    """`make run` passes PROVIDER on to the demonstration and installs no model."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^run:.*\n((?:\t.*\n)+)", makefile, flags=re.MULTILINE)
    assert recipe is not None
    assert recipe[1] == "\t@$(BIN)/python examples/demo/demo.py $(PROVIDER)\n"


@pytest.mark.parametrize(("installed", "provider"), [(True, "local"), (False, "scripted")])
def test_an_installed_model_does_the_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool, provider: str
) -> None:
    """A model for code that was downloaded is used without being configured; the smallest one is not."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    if installed:
        models_folder(tmp_path).mkdir()
        (models_folder(tmp_path) / CODER.file).write_bytes(b"GGUF")
    demo = runpy.run_path(str(DEMO / "demo.py"))
    listed = json.dumps([{"id": "local", "used": True, "configured": []}])
    found = demo["_found_provider"]
    monkeypatch.setitem(found.__globals__, "_amplifier", lambda *arguments: listed)
    assert found() == provider


def test_without_a_model_a_script_repairs_the_sample_project(tmp_path: Path) -> None:
    """Without a key the output is labelled as scripted; rules, change, decisions, cost and next steps are shown."""
    before = _files()
    done = _run(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    parts = [
        "SCRIPTED DEMONSTRATION: no key and no model server was found",
        '{verdict: allow, command: "python3 -m unittest *"}',
        "$ amplifier run --trust",
        "read the one that fails",
        "21 results need 3 pages",
        "+    return -(-results // per_page)",
        'granted by `allow command "python3 -m unittest *"`, .amplifier/policy.yaml:4',
        'granted by `allow filesystem.write path "pages.py"`, .amplifier/policy.yaml:3',
        "4 model calls",
        "The tests pass.",
        "amplifier init",
        "start Ollama",
        "amplifier provider install local",
    ]
    places = [done.stdout.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)
    assert _files() == before
    [project] = (tmp_path / "tmp").glob("amplifier-demo-*")
    assert "-(-results" in (project / "pages.py").read_text(encoding="utf-8")


def test_the_sample_project_fails_as_the_script_says(tmp_path: Path) -> None:
    """One of two tests of the sample project fails, with nothing but Python."""
    done = subprocess.run(
        [sys.executable, "-B", "-m", "unittest"],
        cwd=DEMO / "project",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "AssertionError: 2 != 3" in done.stderr
    assert "Ran 2 tests" in done.stderr


def test_what_a_model_wrote_runs_in_the_sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests that are run at the end write nothing outside of the project and have none of the user's keys."""
    monkeypatch.syspath_prepend(str(DEMO))
    demo = import_module("demo")
    project = tmp_path / "project"
    shutil.copytree(DEMO / "project", project)
    if not Sandbox(SandboxConfig(), project).status.is_active:
        pytest.skip("there is no sandbox here")
    monkeypatch.setenv("OPENAI_API_KEY", "not-a-real-key")
    code = [
        "import os, pathlib",
        "pathlib.Path('said').write_text(repr(dict(os.environ)))",
        f"open('{tmp_path}/made', 'w')",
    ]
    (project / "pages.py").write_text("\n".join(code), encoding="utf-8")
    assert demo._tests_fail(project)
    assert "not-a-real-key" not in (project / "said").read_text(encoding="utf-8")
    assert not (tmp_path / "made").exists()


@pytest.fixture
def server() -> Iterator[str]:
    """Yield the address of a server with a model that always says the same."""
    arguments = ["-m", "amplifier_testing.llm", "responses", "--model", "gpt-5.5", "--say", SAID]
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def test_a_real_model_gets_the_same_task(tmp_path: Path, server: str) -> None:
    """With a key that model is used, without the label, and a repair that it does not make is not reported."""
    done = _run(tmp_path, OPENAI_API_KEY="not-a-real-key", OPENAI_BASE_URL=f"{server}/v1")
    assert "SCRIPTED" not in done.stdout
    assert "DEMONSTRATION with openai" in done.stdout
    # A server that was found on this machine has its address only where `run` finds it, too.
    assert "--provider" not in done.stdout
    assert SAID in done.stdout
    assert "The tests still fail." in done.stdout
    assert "make run" not in done.stdout
    assert done.returncode == 1
    [log] = tmp_path.rglob("events.jsonl")
    prompts = [json.loads(line)["data"].get("prompt") for line in log.read_text("utf-8").splitlines()]
    assert any("A test fails here." in (prompt or "") for prompt in prompts)


def test_a_real_model_repairs_the_sample_project(tmp_path: Path) -> None:
    """A model behind an OpenAI-compatible server on this machine does the task: real calls, real rules, real tests."""

    def calls(*made: tuple[str, dict[str, str]]) -> Said:
        numbered = tuple((f"call-{number}-{name}", name, given) for number, (name, given) in enumerate(made))
        return Said(text=("On it.",), calls=numbered)

    test = ("bash", {"command": "python3 -m unittest"})
    fix = {
        "file_path": "pages.py",
        "old_string": "return results // per_page",
        "new_string": "return -(-results // per_page)",
    }
    wire = ChatWire()
    with ModelServer() as server:
        server.answers(wire.models("coder-1"), path="/v1/models")
        server.answers(
            *map(
                wire.either,
                (
                    calls(test, ("read_file", {"file_path": "pages.py"})),
                    calls(("edit_file", fix)),
                    calls(test),
                    Said(text=("It rounds up now; both tests pass.",)),
                ),
            ),
            path=wire.path,
        )
        home = tmp_path / ".amplifier"
        home.mkdir()
        (home / "settings.yaml").write_text(
            "config:\n  providers:\n    - module: provider-chat-completions\n"
            f"      config: {{base_url: '{server.url}/v1', default_model: coder-1}}\n"
        )
        done = _run(tmp_path)
        heard = [one for one in server.bodies if "messages" in one]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SCRIPTED" not in done.stdout
    assert "DEMONSTRATION with chat-completions" in done.stdout
    assert "+    return -(-results // per_page)" in done.stdout
    assert 'granted by `allow filesystem.write path "pages.py"`, .amplifier/policy.yaml:3' in done.stdout
    assert "The tests pass." in done.stdout
    assert {one["model"] for one in heard} == {"coder-1"}
    assert "AssertionError: 2 != 3" in json.dumps(heard[1]["messages"])
