"""builder: a specified change, made with tests that were really run."""

from __future__ import annotations

import sys
from typing import Any

CODE = """def slug(title):
    return title.replace(" ", "-")
"""
TESTS = """import unittest

from slug import slug


class SlugTest(unittest.TestCase):
    def test_blanks(self):
        self.assertEqual(slug("a b"), "a-b")
"""
#: As YAML writes it between quotation marks.
NEW_TEST = r"    def test_case(self):\n        self.assertEqual(slug('A B'), 'a-b')\n\n    def test_blanks(self):"
SCENARIO = """
turns:
  - tool_calls:
      - name: delegate
        arguments:
          agent: builder
          context_depth: none
          instruction: "slug() in slug.py must return lower case. Tests: PYTHON -m unittest -q test_slug"
  - expect: {last_role: tool, contains: ["slug.py and test_slug.py", "Ran 2 tests"]}
    text: The slug is lower case now.
agents:
  builder:
    - expect:
        system_contains: You build what was specified
        contains: slug() in slug.py must return lower case
        tools: [read_file, write_file, edit_file, bash, todo]
      tool_calls:
        - {name: read_file, arguments: {file_path: slug.py}}
        - {name: bash, arguments: {command: "PYTHON -m unittest -q test_slug"}}
    - expect: {last_role: tool, contains: ["title.replace", "Ran 1 test"]}
      tool_calls:
        - name: edit_file
          arguments:
            file_path: test_slug.py
            old_string: "    def test_blanks(self):"
            new_string: "NEW"
    - tool_calls:
        - {name: bash, arguments: {command: "PYTHON -m unittest -q test_slug"}}
    - expect: {last_role: tool, contains: ["'A-B' != 'a-b'", "FAILED (failures=1)"]}
      tool_calls:
        - name: edit_file
          arguments: {file_path: slug.py, old_string: title.replace, new_string: title.lower().replace}
    - tool_calls:
        - {name: bash, arguments: {command: "PYTHON -m unittest -q test_slug"}}
    - expect: {last_role: tool, contains: "Ran 2 tests"}
      text: "I changed slug.py and test_slug.py. `unittest -q test_slug`: failed first, then Ran 2 tests, OK."
"""


async def test_builder_changes_and_runs(workshop: Any) -> None:
    """It sees the new test fail, mends the code, sees all tests pass, and the files are changed on disk."""
    workshop.write("slug.py", CODE)
    workshop.write("test_slug.py", TESTS)
    workshop.allow({"action": "filesystem.write", "path": "**"}, {"action": "process.exec"})
    scenario = SCENARIO.replace("PYTHON", sys.executable).replace("NEW", NEW_TEST)
    ran = await workshop.run(scenario, "Slugs should be lower case.")
    assert ran.answer == "The slug is lower case now."
    child = ran.child("builder")
    assert ("edit_file", True) in ran.tools_used(child)
    assert (workshop.project / "slug.py").read_text(encoding="utf-8").count("lower()") == 1
    codes = [
        data["result"]["output"]["returncode"] for data in ran.of("tool:post", child) if data["tool_name"] == "bash"
    ]
    assert codes == [0, 1, 0]


async def test_builder_asks_before_it_writes(workshop: Any) -> None:
    """A child can do no more than its parent: without a rule that allows it, nobody answers and nothing is written."""
    workshop.write("slug.py", CODE)
    scenario = """
turns:
  - tool_calls: [{name: delegate, arguments: {agent: builder, instruction: make it lower case}}]
  - expect: {contains: I was not allowed to write.}
    text: It was refused.
agents:
  builder:
    - tool_calls: [{name: write_file, arguments: {file_path: slug.py, content: gone}}]
    - expect: {last_role: tool, contains: Denied}
      text: I was not allowed to write.
"""
    ran = await workshop.run(scenario, "Go.")
    assert ran.answer == "It was refused."
    assert (workshop.project / "slug.py").read_text(encoding="utf-8") == CODE
