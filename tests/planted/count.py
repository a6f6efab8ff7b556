"""Plant forty secrets in a session, run it, and look for them in every file of the home; write docs/reliability.md.

    python -m planted.count [--seed N] [--output FILE]

run in the folder above this one; `make bench-secrets` does it.

The secrets are in the environment, the config, prompts, tool inputs and outputs, errors, URLs and answers. The session
has a log, a transcript, metadata and a recording, all below one home. Tools and the model must get every secret as it
is, no file may hold one, and a second run of the session must see masks and say so. Exits 1 unless all of that held.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .home_search import search
from .plants import Garden, Plant, plant

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

from document import RELIABILITY, circumstances, table, write_section  # noqa: E402

SESSION = "garden"
#: What must be there for the count to mean anything.
WRITTEN = {"events.jsonl", "transcript.jsonl", "context-messages.jsonl", "metadata.json", "recorded.yaml", "blob"}
TOOL = """
import json, os
from pathlib import Path
from amplifier_core import ToolResult

class Vault:
    name = "vault"
    description = "Keep what it is given, and give what it is asked for."
    input_schema = {"type": "object"}

    def __init__(self, config):
        self.config = config
        self.planned = json.loads(Path(os.environ["GARDEN_OUTPUTS"]).read_text(encoding="utf-8"))

    async def execute(self, input):
        with open(os.environ["GARDEN_SEEN"], "a", encoding="utf-8") as file:
            environ = {name: value for name, value in os.environ.items() if name.startswith("GARDEN_")}
            file.write(json.dumps([input, self.config, environ]) + "\\n")
        if not self.planned["outputs"]:
            raise RuntimeError(self.planned["error"])
        return ToolResult(output=self.planned["outputs"].pop(0))

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Vault(config), name="vault")
"""


class Consent:
    """An approval system that says yes, and remembers what it was shown."""

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        """Allow everything."""
        return options[0]


def prepare(folder: Path, garden: Garden) -> None:
    """Write what the session needs, outside of its home: the tool, what it will say, and the model's script."""
    package = folder / "modules" / "amplifier_module_tool_vault"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(TOOL, encoding="utf-8")
    planned = {"outputs": garden.tool_outputs, "error": garden.tool_error}
    (folder / "outputs.json").write_text(json.dumps(planned), encoding="utf-8")
    # One call for every output, and one for the error.
    inputs = [*garden.tool_inputs, {"more": True}, {"last": True}]
    calls = [{"name": "vault", "arguments": given} for given in inputs]
    turns: list[dict[str, Any]] = [
        {"thinking": garden.thinking, "tool_calls": calls[:2]},
        {"tool_calls": calls[2:]},
        {"text": garden.answer},
        {"error": {"type": "InvalidRequestError", "message": garden.provider_error}},
        {"text": "Third."},
    ]
    (folder / "scenario.yaml").write_text(json.dumps({"turns": turns}), encoding="utf-8")
    (folder / "again.yaml").write_text(json.dumps({"turns": [{"text": "Again."}]}), encoding="utf-8")


def plan_of(folder: Path, garden: Garden, scenario: str) -> dict[str, Any]:
    """Return a mount plan with every writer there is."""
    mock = {"scenario": str(folder / scenario), "raw": True, "record": str(folder / "home" / "recorded.yaml")}
    return {
        "session": {
            "orchestrator": {"module": "loop-streaming"},
            "context": {"module": "context-persistent"},
            "metadata": {"note": f"env: {garden.environ['GARDEN_API_KEY']}"},
            "raw": True,
        },
        "providers": [{"module": "provider-mock", "config": {**garden.provider_config, **mock}}],
        "tools": [{"module": "tool-vault", "config": garden.tool_config}],
        "hooks": [{"module": "hooks-redaction"}, {"module": "hooks-logging", "config": {"exclude_events": []}}],
    }


class Seen:
    """What reached whom."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.answers: list[str] = []
        self.masked_requests = 0

    def watch(self, session: Any) -> None:
        """Listen to what the model is asked and what it answers."""
        provider = session.coordinator.get("providers", "mock")
        complete = provider.complete

        async def watched(request: Any, **kwargs: Any) -> Any:
            self.requests.append(request.model_dump_json())
            response = await complete(request, **kwargs)
            self.answers.append(response.model_dump_json())
            return response

        provider.complete = watched


async def run(folder: Path, garden: Garden, scenario: str, prompts: list[str]) -> Seen:
    """Run the session as applications do, and return what reached whom."""
    from amplifier_core.llm_errors import LLMError
    from amplifier_foundation.plan.prepared import Prepared
    from amplifier_foundation.sessions.runtime import SessionRuntime

    sys.path.insert(0, str(folder / "modules"))
    (folder / "project").mkdir(exist_ok=True)
    (folder / "home").mkdir(exist_ok=True)
    # The tool of the garden is none that the default rules know; a person is asked, and says yes.
    (folder / "home" / "policy.yaml").write_text('rules: [{action: "tool.*", verdict: ask}]\n', encoding="utf-8")
    plan = plan_of(folder, garden, scenario)
    prepared = Prepared.from_plan(plan, folder / "home", folder / "project", instruction="Keep the garden.")
    seen = Seen()
    async with SessionRuntime(prepared, session_id=SESSION, approval_system=Consent()) as runtime:
        seen.watch(runtime.session)
        for prompt in prompts:
            try:
                seen.answers.append(json.dumps(await runtime.execute(prompt)))
            except LLMError as error:
                seen.answers.append(json.dumps(str(error)))
                runtime.session.coordinator.log("ERROR", f"the turn failed: {error}")
    return seen


def intact(garden: Garden, folder: Path, seen: Seen) -> list[Plant]:
    """Return the plants that reached their recipient unchanged."""
    tool = [json.loads(line) for line in (folder / "seen.jsonl").read_text(encoding="utf-8").splitlines()]
    texts = {
        "env": json.dumps([given[2] for given in tool]),
        "config": json.dumps([given[1] for given in tool]) + json.dumps(garden.provider_config),
        "tool input": json.dumps([given[0] for given in tool]),
        "prompt": "".join(seen.requests),
        "tool output": "".join(seen.requests),
        "error": "".join((*seen.requests, *seen.answers)),
        "answer": "".join(seen.answers),
    }
    # JSON in a text in JSON is escaped as often; without its signs it is compared as it is.
    bare = {where: text.replace("\\", "") for where, text in texts.items()}
    return [one for one in garden.plants if _bare(one.secret) in bare[one.where]]


def _bare(secret: str) -> str:
    return json.dumps(secret)[1:-1].replace("\\", "")


def leaks(garden: Garden, home: Path) -> list[tuple[Plant, Path]]:
    """Return which plant was found in which file of the home."""
    traces = {
        f"{number} {index}": trace.decode()
        for number, one in enumerate(garden.plants)
        for index, trace in enumerate(one.traces)
    }
    found = [(garden.plants[int(leak.secret.split()[0])], Path(leak.path)) for leak in search(home, traces)]
    return list(dict.fromkeys(found))


def play(folder: Path, seed: int) -> dict[str, Any]:
    """Run the session twice, in a process that has the environment, and return what was counted."""
    garden = plant(seed)
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger().addHandler(handler)
    first = asyncio.run(run(folder, garden, "scenario.yaml", garden.prompts))
    recorded = (folder / "home" / "recorded.yaml").stat().st_size
    second = asyncio.run(run(folder, garden, "again.yaml", ["Go on."]))
    resumed = "".join(second.requests).encode()
    home = folder / "home"
    files = [path for path in home.rglob("*") if path.is_file()]
    written = b"".join(path.read_bytes() for path in files)
    return {
        "planted": len(garden.plants),
        "intact": len(intact(garden, folder, first)),
        "leaks": [[one.what, one.where, str(path)] for one, path in leaks(garden, home)],
        "missing": [[one.what, one.where] for one in garden.plants if one not in intact(garden, folder, first)],
        "files": len(files),
        "names": sorted({(path.suffix and path.name) or "blob" for path in files}),
        "bytes": len(written),
        "masks": written.count(b"[REDACTED"),
        "recorded": recorded,
        "resumed_masks": resumed.count(b"[REDACTED"),
        "resumed_leaks": sum(any(trace in resumed for trace in one.traces) for one in garden.plants),
        "said_so": any("masked" in line for line in said),
        "leaky_diagnostics": sum(any(trace.decode() in "".join(said) for trace in one.traces) for one in garden.plants),
    }


def child(folder: Path, seed: int) -> dict[str, Any]:
    """Run the session in a separate process, whose environment has the planted variables and no other secret."""
    garden = plant(seed)
    prepare(folder, garden)
    environ = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "VIRTUAL_ENV", "TMPDIR")}
    environ |= garden.environ
    environ |= {"HOME": str(folder / "user"), "AMPLIFIER_HOME": str(folder / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
    environ |= {"GARDEN_OUTPUTS": str(folder / "outputs.json"), "GARDEN_SEEN": str(folder / "seen.jsonl")}
    command = [sys.executable, "-m", "planted.count", "--play", str(folder), "--seed", str(seed)]
    tests = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=tests, env=environ, capture_output=True, text=True, timeout=100, check=False)
    if done.returncode:
        raise RuntimeError(f"the session failed: {done.stderr[-3000:]}")
    counted: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return counted


def holds(counted: dict[str, Any]) -> bool:
    """Tell whether everything is as it must be."""
    return (
        counted["intact"] == counted["planted"] == 40
        and not counted["leaks"]
        and not counted["resumed_leaks"]
        and not counted["leaky_diagnostics"]
        and set(counted["names"]) >= WRITTEN
        and counted["masks"] > 0
        and counted["resumed_masks"] > 0
        and counted["said_so"]
    )


def report(counted: dict[str, Any], garden: Garden) -> str:
    """Return the section of the document."""
    places: dict[str, list[Plant]] = {}
    for one in garden.plants:
        places.setdefault(one.where, []).append(one)
    leaked = [(what, where) for what, where, _ in counted["leaks"]]
    missing = [tuple(entry) for entry in counted["missing"]]
    rows = [
        [
            where,
            str(len(plants)),
            ", ".join(dict.fromkeys(one.what for one in plants)),
            str(sum((one.what, one.where) not in missing for one in plants)),
            str(sum((one.what, one.where) in leaked for one in plants)),
        ]
        for where, plants in places.items()
    ]
    total = ["all", str(counted["planted"]), "", str(counted["intact"]), str(len(set(leaked)))]
    return f"""
## Planted secrets

{circumstances()}

{table(["Planted in", "Secrets", "What", "Received intact", "Found in files"], [*rows, total])}

One session with loop-streaming, context-persistent, provider-mock, hooks-redaction and hooks-logging, run as
applications do. {counted["files"]} files below its home ({counted["bytes"]:,} bytes: log with raw requests and every
streamed piece, blobs, transcripts, metadata, a recording) hold {counted["masks"]} masks. Tools and the model got the
secrets as they are. A second run of the session saw {counted["resumed_masks"]} masks and {counted["resumed_leaks"]}
secrets, and said that secrets are masked: {"yes" if counted["said_so"] else "no"}.
`make bench-secrets` counts again.
"""


def main() -> int:
    """Count, print, write, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=None, help="make the secrets of an earlier run again")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    parser.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    seed = random.randrange(10**6) if options.seed is None else options.seed
    if options.play:
        print(json.dumps(play(options.play, seed)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        counted = child(Path(folder), seed)
    print(json.dumps({"seed": seed, **counted}, indent=2))
    write_section(options.output, RELIABILITY, "secrets", report(counted, plant(seed)))
    return 0 if holds(counted) else 1


if __name__ == "__main__":
    sys.exit(main())
