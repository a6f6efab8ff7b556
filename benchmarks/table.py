"""The table of measurements: name, what it is, subject, and what it is compared with."""

from __future__ import annotations

from harness import Measurement

HEADING = """
# Benchmarks

What every part costs, beside the published `amplifier-core` 2.0.2 where it has the same part, and beside the least that
any program would need where that can be measured. Ratios matter more than times: what is compared runs in turn on the
same machine, in fresh processes, and the lower quartile of the rounds counts where nothing else is said, because other
work on the machine only ever adds.

`make bench` measures everything and rewrites this page, section by section, with [reliability](reliability.md): that
takes hours, and two quiet cores. It installs the published kernel into a separate environment (`.peer-venv`, pinned by
`benchmarks/peer-constraints.txt`, with the same pydantic as ours). `python benchmarks/run.py --list` prints all names;
`python benchmarks/run.py NAME` measures one, with `--rounds 1 --small` as a trial. Whether both kernels behave alike is
no benchmark but a suite of tests, described in [compatibility](contracts/compatibility.md).
"""

#: The sections of docs/benchmarks.md: title, and what stands under the table.
GROUPS = {
    "speed": (
        "The kernel, beside the published one",
        """
Each workload of `benchmarks/workloads.py` and `benchmarks/startup.py` runs in rounds of fresh child processes, ours and
the peer's in turn; the median of the rounds counts (within a child, the lower quartile of 40 short batches). The floor
is a bare loop that awaits the same handlers, each with its own JSON copy of the data (the faster of `pydantic_core` and
the standard library), after merging in the default fields and a timestamp; it runs in the same process as ours, batch
by batch in turn. Memory is the growth of the resident set over 300 idle sessions, so native allocations count. Start-up
times begin after the interpreter's own start.
""",
    ),
    "app": (
        "Log, compaction, program",
        """
The floor of `amplifier run` is what any such program has to import: interpreter, asyncio, click, yaml and one pydantic
model. That of a search is ripgrep, or `find`, doing the same.
""",
    ),
    "growth": (
        "How cost grows",
        """
The floor is the cost at the smallest size, for the same one thing: a handler, a message, a line, a rule, a module, a
session. A cost that is in proportion stays near 1× the floor.
""",
    ),
    "scale": (
        "Large logs, and many sessions",
        "Memory is the largest resident set of the process that shows the view.",
    ),
    "reliability": (
        "Faults over many runs",
        "What each number is made of is in [reliability](reliability.md), which the same measurements write.",
    ),
    "project": ("The project's own tests", "`make test` and `.ci/run` in the working tree, on two cores."),
    "twin": ("The digital twin", "[The digital twin](digital-twin.md#how-fast-it-is) says what each row contains."),
}


def beside_peer(
    name: str, what: str, workload: str, faster: float, of_floor: float | None = None, unit: str = "µs", rounds: int = 7
) -> Measurement:
    """Return a measurement of a workload on both kernels."""
    script = "startup.py" if workload in ("import", "ready") else "workloads.py"
    limits = {"faster": faster, "of_floor": of_floor, "unit": unit}
    given = {"what": what, "script": script, "workload": workload, **limits}
    return Measurement(name, what, "speed.measure", "speed", rounds, small=1, given=given)


def kills(name: str, what: str, subject: str, count: int, small: int = 2) -> Measurement:
    """Return a measurement that kills."""
    return Measurement(name, what, "kills.measure", "reliability", 1, count, small, given={"subject": subject})


def growth(name: str, what: str, size: int, small: int, rounds: int = 9) -> Measurement:
    """Return a measurement of how the cost of one thing grows with the number of things."""
    return Measurement(f"growth-{name}", what, f"growth.{name}", "growth", rounds, size, small)


MEASUREMENTS = (
    beside_peer("emit-1", "emit, 1 handler", "emit_1", 40, of_floor=1.6),
    beside_peer("emit-20", "emit, 20 handlers", "emit_20", 30, of_floor=1.6),
    beside_peer("emit-large", "emit, 3 handlers, 50 kB payload", "emit_large", 5),
    beside_peer("emit-messages", "emit, 3 handlers, 50 kB in 400 messages", "emit_messages", 8),
    beside_peer("turn", "no-op turn", "turn", 40),
    beside_peer("session", "session init + cleanup, 10 tools, warm", "session", 10),
    beside_peer("capability", "`register_capability` + `get_capability`", "capability", 1),
    beside_peer("contributions", "`collect_contributions` of ten", "contributions", 1),
    beside_peer("import", "`import amplifier_core`", "import", 5),
    beside_peer("ready", "ready to create a session", "ready", 1),
    beside_peer("memory", "memory of a live session, 10 tools", "memory", 1, unit="kB", rounds=3),
    Measurement("log-write", "events to disk, and added to a turn", "log_write.measure", "app", 40, 20_000, 200, 3),
    Measurement("compaction", "a long history", "compaction.measure", "app", 9, 10_000, 300, 3),
    Measurement("session-list", "`session list` of many sessions", "session_store.measure", "app", 9, 10_000, 30, 3),
    Measurement("compose-resume", "compose a bundle, resume", "compose_resume.measure", "app", 15, 2_000, 5, 3),
    Measurement("run", "`amplifier run`, --version, --help", "app_run.measure", "app", 15, processes=3),
    Measurement("policy", "judge an action by many rules", "policy.measure", "app", 9, 1_000, 20, 3),
    Measurement("search", "grep and glob beside ripgrep", "search.measure", "app", 7, 100_000, 300),
    Measurement("providers", "tokens beside the bare SDKs", "providers.measure", "app", 30, 200, 3),
    Measurement("budget", "ask a budget for room", "budget.measure", "app", 25, 1_000, 10, 3),
    Measurement("sandbox", "what the sandbox adds to a command", "sandbox.measure", "app", 15, processes=3),
    Measurement("mcp", "what MCP servers add to the first turn", "mcp_first_turn.measure", "app", 12),
    Measurement("spawn", "start a session from a session, stop many", "spawn.measure", "app", 60),
    growth("sessions", "create a session while others live", 1_000, 10),
    growth("handlers", "emit, for each handler", 1_000, 20),
    growth("history", "the next request, for each message", 100_000, 200),
    growth("log", "reopen a log and add a line", 100_000, 50),
    growth("rules", "judge a command, by more and more rules", 10_000, 200),
    growth("modules", "start a session, for each tool", 300, 4),
    Measurement("query", "the first answer from a million events", "scale.query", "scale", 3, 1_000_000, 200),
    Measurement("views", "every view of one session of 350,000 events", "scale.views", "scale", 1, 350_000, 200),
    Measurement("sessions-1000", "1,000 sessions of 10 turns in one process", "scale.sessions", "scale", 1, 1_000, 8),
    Measurement("long-session", "a session of 2,000 turns", "long_session.measure", "reliability", 1, 2_000, 16),
    Measurement("trees", "children of one session", "trees.measure", "reliability", 1, 500, 10),
    Measurement("exits", "exit status after one emit: ours", "exits.measure", "reliability", 1, 1_000, 2),
    Measurement("exits-peer", "exit status after one emit: peer", "exits.measure_peer", "reliability", 1, 1_000, 2),
    Measurement("exits-run", "exit status of `amplifier run`", "exits.measure_runs", "reliability", 1, 1_000, 2),
    kills("kill-log", "a log writer, killed", "kill_log.LogWriter", 500),
    kills("kill-run", "`amplifier run`, killed", "kill_run.Runs", 500),
    kills("kill-resume", "runs that are killed and resumed", "kill_resume.ResumedRuns", 500),
    kills("kill-tree", "trees of sessions, killed", "kill_tree.Trees", 60, small=1),
    Measurement("tests", "`make test` and `.ci/run`", "project_tests.measure", "project", 1, 2),
    Measurement("twin", "the digital twin", "twin.measure", "twin"),
)
