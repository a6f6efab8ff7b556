"""explorer: a question about a code base, answered with files and lines."""

from __future__ import annotations

from typing import Any

PRICE = '''"""Prices."""


def order_price(quantity, unit):
    return quantity * unit
'''
CART = """from shop.price import order_price


def total(lines):
    return sum(order_price(*line) for line in lines)
"""
SCENARIO = """
turns:
  - expect: {tools: [delegate, grep, read_file]}
    tool_calls:
      - name: delegate
        arguments: {agent: explorer, instruction: "Where is the price of an order computed, and who uses it?"}
  - expect: {last_role: tool, contains: ["shop/price.py:4", "shop/cart.py:5", '"status": "success"']}
    text: It is computed in shop/price.py.
agents:
  explorer:
    - expect:
        system_contains: You explore a code base and answer one question about it.
        contains: ["[YOUR TASK]", "USER: How do prices work?", "Where is the price of an order computed"]
        tools: [grep, glob, read_file]
      tool_calls:
        - {name: grep, arguments: {pattern: "def .*price", output_mode: content}}
        - {name: grep, arguments: {pattern: "order_price", output_mode: content}}
    - expect: {last_role: tool, contains: ["shop/price.py", "def order_price", "shop/cart.py"]}
      tool_calls:
        - {name: read_file, arguments: {file_path: shop/price.py}}
        - {name: write_file, arguments: {file_path: notes.md, content: "found it"}}
    - expect: {last_role: tool, contains: ["quantity * unit", "notes.md"]}
      text: |-
        `order_price` at shop/price.py:4 multiplies quantity by unit price. shop/cart.py:5 is the only user.
        I did not look at the tests.
"""


async def test_explorer_answers_with_files_and_lines(workshop: Any) -> None:
    """It searches and reads with real tools, cannot write although its user lets it, and its answer comes back."""
    workshop.write("shop/price.py", PRICE)
    workshop.write("shop/cart.py", CART)
    workshop.allow({"action": "filesystem.write"})
    ran = await workshop.run(SCENARIO, "How do prices work?")
    assert ran.answer == "It is computed in shop/price.py."
    child = ran.child("explorer")
    assert ran.tools_used(child) == [("grep", True), ("grep", True), ("read_file", True), ("write_file", False)]
    assert not (workshop.project / "notes.md").exists()
    metadata = ran.metadata(child)
    assert (metadata["agent_name"], metadata["parent_id"]) == ("amplifier:explorer", ran.session_id)
