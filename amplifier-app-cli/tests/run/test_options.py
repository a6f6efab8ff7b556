"""Options of a run: the provider and its limits, images, how much is said."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Scripted = Callable[..., str]

#: The smallest PNG there is.
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5"
    "f645400000000049454e44ae426082"
)


def _plan(result: subprocess.CompletedProcess[str], home: Path) -> dict[str, Any]:
    """Return the plan that was recorded with the session of a result."""
    session = json.loads(result.stdout)["session_id"]
    for file in home.rglob("*.json"):
        if session in file.parts:
            data = json.loads(file.read_text())
            if isinstance(data, dict) and "plan" in data:
                return dict(data["plan"])
    raise AssertionError("no record of the plan")


def test_the_longest_answer_reaches_the_provider(amplifier: Amplifier, scripted: Scripted, tmp_path: Path) -> None:
    """--provider, --model and --max-tokens are in the configuration of the provider that answers."""
    bundle = scripted("turns: [{text: Sure}]")
    arguments = ("--provider", "mock", "--model", "tiny", "--max-tokens", "7", "--output-format", "json")
    result = amplifier("run", "go", "--bundle", bundle, *arguments)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["model"] == "provider-mock/tiny"
    [entry] = _plan(result, tmp_path / "home")["providers"]
    assert (entry["config"]["default_model"], entry["config"]["max_tokens"]) == ("tiny", 7)


def test_a_scripted_model_of_ones_own_stays(amplifier: Amplifier, project: Path) -> None:
    """A scripted model that somebody's own bundle names is what answers, whatever keys are set."""
    (project / "bundle.yaml").write_text(
        "bundle: {name: own}\nsession: {orchestrator: loop-basic, context: context-simple}\n"
        "providers: [{module: provider-mock, config: {responses: [Mine.]}}]\n"
    )
    result = amplifier("run", "go", "--bundle", "bundle.yaml", ANTHROPIC_API_KEY="a-key")
    assert (result.returncode, result.stdout) == (0, "Mine.\n"), result.stderr
    assert "configured in the bundle" in result.stderr


def test_an_image_is_part_of_the_conversation(amplifier: Amplifier, scripted: Scripted, project: Path) -> None:
    """An image is sent before the words of the prompt, as one turn with them; the session can go on with it."""
    (project / "dot.png").write_bytes(PNG)
    bundle = scripted("turns: [{text: A dot., expect: {last_role: user, contains: what is this}}, {text: Still.}]")
    result = amplifier("run", "what is this", "--bundle", bundle, "--image", "dot.png", "--output-format", "json")
    assert json.loads(result.stdout)["response"] == "A dot.", result.stderr
    session = json.loads(result.stdout)["session_id"]
    [transcript] = [file for file in project.parent.rglob("transcript.jsonl") if session in file.parts]
    first, answer = map(json.loads, transcript.read_text().splitlines())
    assert [block["type"] for block in first["content"]] == ["image", "text"]
    assert first["content"][0]["source"]["media_type"] == "image/png"
    assert first["content"][1]["text"] == "what is this"
    assert answer["role"] == "assistant"
    scripted("turns: [{text: Still.}]")
    assert amplifier("continue", "and now?").stdout == "Still.\n"
    forked = amplifier("session", "fork", session, "--at-turn", "1", "--format", "json")
    assert forked.stderr == ""
    copy = Path(json.loads(forked.stdout)["folder"]) / "transcript.jsonl"
    assert len(copy.read_text().splitlines()) == 2


def test_what_is_no_image_is_refused(amplifier: Amplifier, project: Path) -> None:
    """A file that is no image, or not there, is a wrong use that is told before anything is made."""
    (project / "notes.png").write_text("no image")
    for name in ("notes.png", "absent.png", "."):
        result = amplifier("run", "go", "--image", name)
        assert (result.returncode, result.stdout) == (2, ""), result.stderr
        assert name in result.stderr
    assert amplifier("logs").returncode == 2


def test_quiet_says_the_answer_alone(amplifier: Amplifier, scripted: Scripted) -> None:
    """With --quiet, before or after the command, there is the answer and nothing else."""
    bundle = scripted("turns: [{text: Sure}]")
    for arguments in (("run", "-q", "go"), ("--quiet", "run", "go")):
        result = amplifier(*arguments, "--bundle", bundle)
        assert (result.returncode, result.stdout, result.stderr) == (0, "Sure\n", "")


def test_verbose_says_what_runs(amplifier: Amplifier, scripted: Scripted, project: Path) -> None:
    """With --verbose: files of settings and bundle, every module with its place, the provider, and times."""
    (project / ".amplifier").mkdir()
    (project / ".amplifier" / "settings.yaml").write_text("overrides: {provider-mock: {config: {raw: false}}}\n")
    bundle = scripted("turns: [{text: Sure}]")
    result = amplifier("run", "go", "--verbose", "--bundle", bundle)
    assert (result.returncode, result.stdout) == (0, "Sure\n")
    lines = result.stderr.splitlines()
    assert any(line.startswith("settings: ") and "settings.yaml (project)" in line for line in lines)
    assert not any(line.startswith("bundle file: ") and "settings.yaml" in line for line in lines)
    assert any(line.startswith("bundle file: ") and line.endswith("bundle.yaml (project)") for line in lines)
    for module in (
        "orchestrator loop-basic",
        "context context-simple",
        "providers provider-mock",
        "hooks hooks-logging",
    ):
        assert f"module: {module} (installed with the program)" in lines
    assert any(line.startswith("provider: mock") for line in lines)
    for what in ("prepared", "first output of the model", "done"):
        assert any(line.startswith(f"time: {what} after") for line in lines)


def test_chat_options_that_make_no_sense(amplifier: Amplifier) -> None:
    """A chat refuses what only one prompt has, and to be one without a terminal."""
    for more in ((), ("--json",), ("--image", "x.png")):
        result = amplifier("run", "--mode", "chat", *more)
        assert (result.returncode, result.stdout) == (2, "")
        assert "chat" in result.stderr
