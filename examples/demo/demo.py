"""Let an agent fix a failing test in a copy of the sample project, and show what it did, who allowed it, and the cost.

    python examples/demo/demo.py [PROVIDER]

Uses the provider that `amplifier run` would use. Without a real one, or with PROVIDER `scripted`, a script plays the
model and everything else is real. The exit status is that of `amplifier run`, or 1 when the tests still fail.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from decimal import Decimal
from pathlib import Path
from typing import Any

from amplifier_kit.engine.usage import money
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
AMPLIFIER = Path(sys.executable).parent / "amplifier"
PROMPT = "A test fails here. Find out why, fix the code, and run the tests again with python3 -m unittest."
SCRIPTED = "scripted"
NEXT = """\
To give a real model the same task, do one of these, then `make run` again:

    A key          {program} init
                   or set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY
    A server       start Ollama, LM Studio, llama.cpp or vLLM on this machine
    No key at all  {program} provider install local --model qwen2.5-coder-1.5b
                   or `make model`: downloads about 1.1 GB, once, of a small model for code, which
                   works with the same tools and rules, and often gets the repair wrong
"""
#: Limits for a real model: the task takes about five calls. Not in dollars: models on this machine have no known price.
LIMITS = ["--max-turns", "20", "--max-total-tokens", "300000"]


def main(arguments: list[str]) -> int:
    """Run the demonstration and return the exit status."""
    chosen = arguments[0] if arguments and arguments[0] else ""
    provider = chosen or _found_provider()
    project = Path(tempfile.mkdtemp(prefix="amplifier-demo-"))
    shutil.copytree(HERE / "project", project, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    command = ["run", "--trust", *_options(provider, is_chosen=bool(chosen)), PROMPT]

    _introduce(provider, project)
    _show(f"$ cd {project}\n$ cat pages.py", (project / "pages.py").read_text(encoding="utf-8"))
    _show("$ cat .amplifier/policy.yaml", (project / ".amplifier" / "policy.yaml").read_text(encoding="utf-8"))
    _show(f"$ amplifier {shlex.join(command)}", "")
    status = subprocess.run([AMPLIFIER, *command], cwd=project, check=False).returncode
    print(flush=True)

    _show("What it changed:", _difference(project))
    records = _log(project)
    _show("What it did, and who allowed it (from `amplifier logs`):", _actions(records, project))
    _show("What it cost:", _cost(records, is_scripted=provider == SCRIPTED))
    has_failed = _tests_fail(project)
    print(f"The tests {'still fail' if has_failed else 'pass'}.\n")
    _say_what_is_next(provider, project)
    return status or int(has_failed)


def _found_provider() -> str:
    """Return the name of the provider that a run would use, or `scripted` if it is no real model.

    The smallest model inside the program is too small for this task: it is used only where it is configured.
    """
    from amplifier_kit.local_model import find_local_model

    listed = json.loads(_amplifier("provider", "list", "--json"))
    used: dict[str, Any] = next((one for one in listed if one["used"]), {"id": "mock", "configured": []})
    if used["id"] == "mock" or (used["id"] == "local" and not used["configured"] and find_local_model().coder is None):
        return SCRIPTED
    return str(used["id"])


def _options(provider: str, *, is_chosen: bool) -> list[str]:
    if provider == SCRIPTED:
        return ["--bundle", str(HERE / "bundle.md"), "--provider", "mock"]
    # A provider that was found is found again, with the address of its server; by its name alone it is not.
    return ["--bundle", "default", *(["--provider", provider] if is_chosen else []), *LIMITS]


def _introduce(provider: str, project: Path) -> None:
    if provider == SCRIPTED:
        print(
            "SCRIPTED DEMONSTRATION: no key and no model server was found, so a script plays the model.\n"
            "Everything else is real: the tools, the tests, the rules, the sandbox and the log.\n"
        )
    else:
        print(f"DEMONSTRATION with {provider}: an agent fixes a failing test of a sample project.\n")


def _show(heading: str, text: str) -> None:
    print(heading)
    print(textwrap.indent(text, "    "), flush=True)


def _difference(project: Path) -> str:
    before, after = (
        (folder / "pages.py").read_text(encoding="utf-8").splitlines(keepends=True)
        for folder in (HERE / "project", project)
    )
    return "".join(difflib.unified_diff(before, after, "pages.py (before)", "pages.py (after)", n=0)) or "nothing\n"


def _tests_fail(project: Path) -> bool:
    """Run the tests as the agent does: in the sandbox and without keys, because a model wrote what they run."""
    command, environment = Sandbox(SandboxConfig(), project).wrap(["python3", "-m", "unittest", "-q"])
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, check=False).returncode != 0


def _log(project: Path) -> list[dict[str, Any]]:
    """Return the records of the newest session of the project."""
    return [json.loads(line) for line in _amplifier("logs", "--json", cwd=project).splitlines()]


def _actions(records: list[dict[str, Any]], project: Path) -> str:
    """Return two lines for each decision about a tool call: what was decided about, and which rule or who decided."""
    lines = []
    for record in records:
        if record["event"] in ("approval:granted", "approval:denied"):
            data, verdict = record["data"], record["event"].partition(":")[2]
            given = data["details"].get("tool_input") or {}
            subject = given.get("command") or given.get("file_path") or data["details"].get("tool_name", "")
            by = data.get("answered_by") or {}
            place = "Amplifier's own rules" if by.get("kind") == "default" else by.get("where") or by.get("kind", "")
            place = place.removeprefix(f"{project}{os.sep}")
            lines += [f"{data['action']:17} {subject}", f"    {verdict} by `{by.get('rule', '')}`, {place}"]
    return "\n".join(lines or ["nothing"]) + "\n"


def _cost(records: list[dict[str, Any]], *, is_scripted: bool) -> str:
    """Return what the model calls used and cost."""
    used = [record["data"].get("usage") or {} for record in records if record["event"] == "llm:response"]
    tokens_in, tokens_out = (sum(one.get(key) or 0 for one in used) for key in ("input_tokens", "output_tokens"))
    costs = [one.get("cost_usd") for one in used]
    known = sum((Decimal(one) for one in costs if one is not None), Decimal(0))
    cost = "cost unknown" if None in costs else money(known)
    note = " (estimated tokens; a script costs nothing)" if is_scripted else ""
    calls = "1 model call" if len(used) == 1 else f"{len(used)} model calls"
    return f"{calls}, {tokens_in:,} tokens in, {tokens_out:,} tokens out, {cost}{note}\n"


def _say_what_is_next(provider: str, project: Path) -> None:
    program = os.path.relpath(AMPLIFIER) if AMPLIFIER.is_relative_to(Path.cwd()) else str(AMPLIFIER)
    if provider == SCRIPTED:
        print(NEXT.format(program=program))
    print(f"The project is in {project}. To see everything that happened: cd {project} && {AMPLIFIER} logs")


def _amplifier(*arguments: str, cwd: Path | None = None) -> str:
    done = subprocess.run([AMPLIFIER, *arguments], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"`amplifier {' '.join(arguments)}` failed with {done.returncode}:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
