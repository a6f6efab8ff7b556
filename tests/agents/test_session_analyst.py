"""session-analyst: questions about a past session, answered from its log."""

from __future__ import annotations

from typing import Any

PAST = """
turns:
  - tool_calls:
      - {id: first-read, name: read_file, arguments: {file_path: missing.txt}}
      - {id: second-read, name: read_file, arguments: {file_path: there.txt}}
    usage: {input_tokens: 100, output_tokens: 10, cost_usd: "0.25"}
  - text: One file was missing.
    usage: {input_tokens: 120, output_tokens: 5, cost_usd: "0.05"}
"""
SCENARIO = """
turns:
  - tool_calls:
      - name: delegate
        arguments:
          agent: session-analyst
          context_depth: none
          instruction: "Which tool calls of session PAST failed, and what did the session cost?"
  - expect: {last_role: tool, contains: ["first-read", "missing.txt", "0.30"]}
    text: One read failed.
agents:
  session-analyst:
    - expect:
        system_contains: You answer a question about past sessions from what is on record.
        tools: [read_file, grep]
      tool_calls: [{name: read_file, arguments: {file_path: "@user:projects/SLUG/sessions/PAST"}}]
    - expect: {last_role: tool, contains: ["events.jsonl", "metadata.json", "transcript.jsonl"]}
      tool_calls:
        - name: grep
          arguments: {pattern: '"event": ?"tool:post"', path: "FOLDER/events.jsonl", output_mode: content}
        - name: grep
          arguments: {pattern: '"event": ?"llm:response"', path: "FOLDER/events.jsonl", output_mode: content}
    - expect: {last_role: tool, contains: ["first-read", "not_found", "0.25", "0.05"]}
      text: "In PAST the call first-read of read_file failed: missing.txt is not there. Cost: 0.30 USD in two answers."
"""


async def past_session(workshop: Any) -> Any:
    """Run the session that the questions are about."""
    workshop.write("there.txt", "here\n")
    return await workshop.run(PAST, "Read both files.")


def script(past: Any) -> str:
    """Return the scenario with the names of that session in it."""
    names = {"PAST": past.session_id, "SLUG": past.folder.parent.parent.name, "FOLDER": str(past.folder)}
    scenario = SCENARIO
    for word, name in names.items():
        scenario = scenario.replace(word, name)
    return scenario


async def test_session_analyst_answers_from_the_log(workshop: Any) -> None:
    """It finds the session's folder by its name, searches the log, and tells failure and cost as they are there."""
    past = await past_session(workshop)
    workshop.allow({"action": "filesystem.read", "path": f"{workshop.home.path}/projects/**"})
    ran = await workshop.run(script(past), "What went wrong before?")
    assert ran.answer == "One read failed."
    used = ran.tools_used(ran.child("session-analyst"))
    assert used == [("grep", True), ("grep", True), ("read_file", True)]


async def test_logs_are_not_read_without_a_rule(workshop: Any) -> None:
    """What lies outside the project is read by an agent only when its user allows it."""
    past = await past_session(workshop)
    scenario = script(past).split("agents:")[0].split("  - expect: {last_role: tool")[0]
    scenario += f"""\
  - expect: {{contains: needs a rule}}
    text: I may not look.
agents:
  session-analyst:
    - tool_calls: [{{name: grep, arguments: {{pattern: x, path: "{past.folder}"}}}}]
    - expect: {{last_role: tool, contains: Denied}}
      text: This needs a rule.
"""
    assert (await workshop.run(scenario, "And?")).answer == "I may not look."
