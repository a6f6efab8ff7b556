"""Generate histories of tool calls, broken in every way we know of, and look for one that cannot be made sound.

    python amplifier-kit/tests/engine/pairing_histories.py [--count 100000] [--seed 1] [--output FILE]

Two sources, half each. *Ledgers*: the messages of made-up turns with parallel calls, cut short anywhere (a crash), with
results lost, doubled, moved or answered under a wrong id, ids used again, and a child's messages written into its
parent's ledger. *Turns*: the engine itself runs a scripted model with parallel tools that succeed, fail, hang, are
denied or run a child session; the turn is cancelled at a random step or not at all; its ledger is then cut at every
point. Writes a section of docs/reliability.md. Exits 1 when any history breaks a rule.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.model_call import LoopMemory
from amplifier_kit.engine.loop.turn import Turn
from amplifier_kit.engine.pairing import check_pairing, repair_pairing, tool_call_ids
from amplifier_testing.loop.fakes import LoopRig, PlainTool, call, say

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benchmarks"))

from document import RELIABILITY, circumstances, table, write_section  # noqa: E402

History = list[dict[str, Any]]

_MOST_STEPS = 60


class Generator:
    """Make histories from one source of chance."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._number = 0

    def ledgers(self) -> Iterator[tuple[str, History]]:
        """Yield made-up histories for ever, each with what was done to it."""
        while True:
            history = self._turns("p")
            damage = self._chance.choice(_DAMAGES)
            yield damage.__name__.strip("_"), damage(self, history)

    async def turns(self) -> tuple[str, list[History]]:
        """Run one turn of the engine and return the ledgers it leaves, its own and those of its children."""
        rig = self._rig(depth=0)
        way = self._chance.choice(["finished", "task cancelled", "asked to stop", "asked to stop at once"])
        turn = asyncio.create_task(rig.run())
        if way != "finished":
            for _ in range(self._chance.randrange(_MOST_STEPS)):
                await asyncio.sleep(0)
            if way == "task cancelled":
                turn.cancel()
            else:
                await rig.coordinator.request_cancel(immediate=way.endswith("at once"))
        await asyncio.gather(turn, return_exceptions=True)
        return way, [rig.context.messages, *(child.context.messages for child in rig.children)]

    # -- made-up histories --

    def _turns(self, prefix: str) -> History:
        history: History = []
        for _ in range(self._chance.randint(1, 4)):
            history.append({"role": "user", "content": self._text(prefix)})
            for _ in range(self._chance.randint(0, 3)):
                history += self._exchange(prefix)
            history.append({"role": "assistant", "content": self._text(prefix)})
        return history

    def _exchange(self, prefix: str) -> History:
        ids = [self._text(prefix) for _ in range(self._chance.randint(1, 5))]
        message: dict[str, Any] = {"role": "assistant", "content": self._text(prefix)}
        if self._chance.random() < 0.5:
            blocks = [{"type": "tool_call", "id": name, "name": "work", "input": {}} for name in ids]
            message["content"] = [{"type": "text", "text": self._text(prefix)}, *blocks]
        if isinstance(message["content"], str) or self._chance.random() < 0.5:
            message["tool_calls"] = [{"id": name, "tool": "work", "arguments": {}} for name in ids]
        answered = self._chance.sample(ids, len(ids)) if self._chance.random() < 0.3 else ids
        return [message, *({"role": "tool", "tool_call_id": name, "content": f"result {name}"} for name in answered)]

    def _text(self, prefix: str) -> str:
        self._number += 1
        return f"{prefix}{self._number}"

    def intact(self, history: History) -> History:
        return history

    def crashed(self, history: History) -> History:
        return history[: self._chance.randint(0, len(history))]

    def crashed_and_resumed(self, history: History) -> History:
        return self.crashed(history) + self._turns("r")

    def results_lost(self, history: History) -> History:
        return [m for m in history if m["role"] != "tool" or self._chance.random() < 0.6]

    def results_doubled(self, history: History) -> History:
        return [copied for m in history for copied in ([m, dict(m)] if self._hits(m) else [m])]

    def results_moved(self, history: History) -> History:
        moved = [m for m in history if self._hits(m)]
        rest = [m for m in history if not any(m is taken for taken in moved)]
        for message in moved:
            rest.insert(self._chance.randint(0, len(rest)), message)
        return rest

    def results_misnamed(self, history: History) -> History:
        wrong = ["", "unknown", "p1"]
        return [{**m, "tool_call_id": self._chance.choice(wrong)} if self._hits(m) else m for m in history]

    def ids_used_again(self, history: History) -> History:
        names = [name for m in history for name in tool_call_ids(m)]
        same = {name: self._chance.choice(["call_0", "call_1", "", name]) for name in names}
        return [_renamed(m, same) for m in history]

    def interleaved_with_a_child(self, history: History) -> History:
        child, mixed = self._turns("c"), list[dict[str, Any]]()
        parent = list(history)
        while parent or child:
            mixed.append((parent if parent and (not child or self._chance.random() < 0.5) else child).pop(0))
        return mixed

    def everything_at_once(self, history: History) -> History:
        for damage in self._chance.sample(_DAMAGES[:-1], 4):
            history = damage(self, history)
        return history

    def _hits(self, message: dict[str, Any]) -> bool:
        return message["role"] == "tool" and self._chance.random() < 0.4

    # -- turns of the engine --

    def _rig(self, depth: int) -> Any:
        rig: Any = LoopRig(tools=self._tools(depth))
        rig.children = []
        names = [*rig.tools, "unknown"]
        answers: list[Any] = []
        for _ in range(self._chance.randint(0, 3)):
            count = self._chance.randint(1, 4)
            calls: list[Any] = [(self._call_id(), self._chance.choice(names), {}) for _ in range(count)]
            answers.append(call(*calls, text=self._chance.choice(["", "let me see"])))
        rig.provider.answers = [*answers, say("done")]
        rig.coordinator.register_policy("some", lambda action, _: "deny" if action == "tool.forbidden" else None)
        config = LoopConfig(tool_timeout=0.05, loop_guard_warn=None, loop_guard_stop=None)
        rig.coordinator.mount_points["orchestrator"] = _Loop(config)
        if depth == 0:
            rig.tools["delegate"] = PlainTool("delegate", self._delegate(rig))
        return rig

    def _delegate(self, parent: Any) -> Any:
        async def delegate(_: Any) -> str:
            child = self._rig(depth=1)
            parent.children.append(child)
            parent.coordinator.cancellation.register_child(child.coordinator.cancellation)
            answer: str = await child.run()
            return answer

        return delegate

    def _tools(self, depth: int) -> list[PlainTool]:
        tools = [PlainTool("work"), PlainTool("forbidden"), PlainTool("fail", _fail)]
        return [*tools, PlainTool("hang", _hang)] if self._chance.random() < 0.1 and not depth else tools

    def _call_id(self) -> str:
        return self._chance.choice(["call_0", "", self._text("id")])


_DAMAGES: list[Any] = [
    Generator.intact,
    Generator.crashed,
    Generator.crashed_and_resumed,
    Generator.results_lost,
    Generator.results_doubled,
    Generator.results_moved,
    Generator.results_misnamed,
    Generator.ids_used_again,
    Generator.interleaved_with_a_child,
    Generator.everything_at_once,
]


class _Loop:
    """Be the smallest loop on the engine."""

    def __init__(self, config: LoopConfig) -> None:
        self._config = config
        self._memory = LoopMemory()

    async def execute(self, prompt: str, **parts: Any) -> str:
        return await _Turn(self._config, self._memory, **parts).run(prompt)


class _Turn(Turn):
    name = "loop-plain"


async def _hang(_: Any) -> Any:
    await asyncio.Event().wait()


def _fail(_: Any) -> Any:
    raise OSError("no such luck")


def _renamed(message: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    changed = copy.deepcopy(message)
    if changed["role"] == "tool":
        changed["tool_call_id"] = names.get(changed["tool_call_id"], changed["tool_call_id"])
    blocks = changed["content"] if isinstance(changed["content"], list) else []
    for entry in [*changed.get("tool_calls", []), *blocks]:
        if "id" in entry:
            entry["id"] = names[entry["id"]]
    return changed


def broken_rules(history: History) -> list[str]:
    """Return which rules the repair of a history breaks; none, we say."""
    before = copy.deepcopy(history)
    was_sound = not check_pairing(history)
    repaired = repair_pairing(history)
    again = repair_pairing(repaired.messages)
    rules = {
        "the repaired history is sound": not check_pairing(repaired.messages),
        "repairing twice is repairing once": again.messages == repaired.messages and not again.repairs,
        "the history given is not changed": history == before,
        "a sound history stays as it is": not was_sound or (repaired.messages == history and not repaired.repairs),
        "all that was said stays, in order": _said(repaired.messages) == _said(history),
        "results of known calls stay": _kept(history) <= {_content(m) for m in repaired.messages},
    }
    return [rule for rule, holds in rules.items() if not holds]


def _said(history: History) -> list[str]:
    return [_content(m) for m in history if m["role"] != "tool" and not (m.get("metadata") or {}).get("synthetic")]


def _kept(history: History) -> set[str]:
    """Return the ids of unambiguous results: one call and one result of that id."""
    calls = Counter(name for m in history for name in tool_call_ids(m))
    results = Counter(m["tool_call_id"] for m in history if m["role"] == "tool")
    return {
        _content(m)
        for m in history
        if m["role"] == "tool" and calls[m["tool_call_id"]] == results[m["tool_call_id"]] == 1 and m["tool_call_id"]
    }


def _content(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else str([b.get("text") for b in content])


def check_ledgers(generator: Generator, count: int) -> tuple[Counter[str], list[str]]:
    """Check made-up histories; return how many of each kind there were, and every broken rule."""
    kinds: Counter[str] = Counter()
    broken: list[str] = []
    for kind, history in generator.ledgers():
        if kinds.total() >= count:
            break
        kinds[kind.replace("_", " ")] += 1
        broken += [f"{kind}: {rule}: {history}" for rule in broken_rules(history)]
    return kinds, broken


async def check_turns(generator: Generator, count: int) -> tuple[Counter[str], list[str]]:
    """Check what the engine leaves behind: every ledger sound as it is, and every cut of it repaired."""
    kinds: Counter[str] = Counter()
    broken: list[str] = []
    while kinds.total() < count:
        way, ledgers = await generator.turns()
        broken += [f"{way}: the ledger is not sound: {ledger}" for ledger in ledgers if check_pairing(ledger)]
        cuts = [ledger[:length] for ledger in ledgers for length in range(1, len(ledger) + 1)]
        for history in cuts[: count - kinds.total()]:
            kinds[f"turn {way}, cut at every point"] += 1
            broken += [f"{way}: {rule}: {history}" for rule in broken_rules(history)]
    return kinds, broken


def check(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Check so many histories, half from each source."""
    generator = Generator(seed)
    kinds, broken = check_ledgers(generator, count // 2)
    more, worse = asyncio.run(check_turns(generator, count - count // 2))
    return kinds + more, broken + worse


def main() -> int:
    """Check, print, write, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reliability.md")
    options = parser.parse_args()
    start = time.monotonic()
    kinds, broken = check(options.count, options.seed)
    seconds = time.monotonic() - start
    for complaint in broken[:10]:
        print(complaint, file=sys.stderr)
    print(f"{kinds.total()} histories, {len(broken)} broken rules ({seconds:.0f} s)")
    rows = [[kind, f"{number:,}"] for kind, number in sorted(kinds.items())]
    body = f"""
## Tool calls and their results

{circumstances()}

{table(["History", "Checked"], [*rows, ["all", f"{kinds.total():,}"], ["broken rules", str(len(broken))]])}

Every history, repaired as before a model call, is sound; what was sound stays as it is; nothing said is lost.
`make bench-histories` makes and checks them again.
"""
    write_section(options.output, RELIABILITY, "pairing", body)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
