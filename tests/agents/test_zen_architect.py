"""zen-architect: a design that starts from the code that is there, and goes on when it is asked again."""

from __future__ import annotations

import re
from typing import Any

SCENARIO = """
turns:
  - tool_calls:
      - name: delegate
        arguments:
          agent: zen-architect
          instruction: "Design how reports are sent by mail as well as printed."
          context_depth: none
  - expect: {last_role: tool, contains: ["Specification", "Sink", "report.py"]}
    text: The design is ready.
agents:
  zen-architect:
    - expect:
        system_contains: You design systems that are as simple as they can be
        tools: [glob, grep, read_file]
      tool_calls:
        - {name: glob, arguments: {pattern: "**/*.py"}}
        - {name: read_file, arguments: {file_path: report.py}}
    - expect: {last_role: tool, contains: ["report.py", "print(line)"]}
      text: |-
        Problem: report.py prints in the middle of its work. Ways: (a) a flag, (b) a Sink that is passed in.
        Recommended: (b). Specification: Sink: takes lines; fails by raising; tested with a list.
"""
RESUMED = """
turns:
  - tool_calls: [{name: delegate, arguments: {session_id: CHILD, instruction: And what would you leave out}}]
  - expect: {last_role: tool, contains: [Retries, '"turn_count"']}
    text: No retries, then.
agents:
  zen-architect:
    - expect:
        system_contains: You design systems that are as simple as they can be
        contains: ["(b) a Sink that is passed in", "And what would you leave out"]
      text: Retries. Nobody has asked for them.
"""


async def test_zen_architect_designs_from_what_is_there(workshop: Any) -> None:
    """It reads the code before it designs, and hands over ways, a choice and a specification."""
    workshop.write("report.py", "def report(lines):\n    for line in lines:\n        print(line)\n")
    ran = await workshop.run(SCENARIO, "Reports by mail, please.")
    assert ran.answer == "The design is ready."
    child = ran.child("zen-architect")
    assert ran.tools_used(child) == [("glob", True), ("read_file", True)]
    assert re.fullmatch(r"0{16}-[0-9a-f]{16}_amplifier-zen-architect", child)


async def test_zen_architect_goes_on(workshop: Any) -> None:
    """Asked again by its session id, it has its prompt and knows what it said; the log says resumed."""
    workshop.write("report.py", "print('x')\n")
    scenario = SCENARIO.replace("print(line)", "print(")
    first = await workshop.run(scenario, "Reports by mail, please.")
    child = first.child("zen-architect")
    ran = await workshop.go_on(first, RESUMED.replace("CHILD", child), "What can wait?")
    assert ran.answer == "No retries, then."
    [resumed] = ran.of("delegate:agent_resumed")
    assert resumed["sub_session_id"] == child
