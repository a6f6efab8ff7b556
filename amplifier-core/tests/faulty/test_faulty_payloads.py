"""Modules that lie in what they hand over: no payload stops an event, and every handler gets clean JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

LYING_TOOL = """
import collections, datetime, decimal, enum, sys, types, unittest.mock
from pathlib import Path


class Unprintable:
    def __str__(self):
        raise RuntimeError("no text")
    __repr__ = __str__


class NotText:
    def __str__(self):
        return 42


class Pretender:
    @property
    def __class__(self):
        return dict


class ExplodingClass:
    @property
    def __class__(self):
        raise RuntimeError("who wants to know?")


class FalseText(str):
    def __str__(self):
        return self
    def isascii(self):
        raise RuntimeError("nothing to see")


class FalseKey(str):
    def __hash__(self):
        return 7


class Model:
    def model_dump(self, mode=None):
        raise RuntimeError("no dump")


class Odd(enum.Enum):
    ONE = object()


def recursive():
    node = {"self": None, "list": []}
    node["self"] = node
    node["list"].append(node["list"])
    return node


def deep(levels):
    node = []
    for _ in range(levels):
        node = [node]
    return node


def shared(levels):
    node = ["leaf"]
    for _ in range(levels):
        node = [node, node]
    return node


def entangled(number):
    nodes = [{"neighbours": []} for _ in range(number)]
    for node in nodes:
        node["neighbours"].extend(other for other in nodes if other is not node)
    return nodes


class Tool:
    name = "lying"
    description = "Hand over something that is not JSON"
    input_schema = {"type": "object"}

    async def execute(self, input):
        return OUTPUT


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool(), name="lying")
"""

OUTPUTS = {
    "NaN": "float('nan')",
    "infinities": "[float('inf'), float('-inf'), {'x': float('nan')}]",
    "lone surrogates": "{'\\ud800key': 'a\\udfffb', 'x': ['\\ud83d']}",
    "null characters": "'a\\0b\\x1b[31m'",
    "recursion": "recursive()",
    "recursion through a tuple": "(lambda l: (l.append((l,)), l)[1])([])",
    "a thousand levels": "deep(1000)",
    "a hundred thousand levels": "deep(100_000)",
    "a huge text": "'x' * 20_000_000",
    "a huge list": "list(range(300_000))",
    "bytes": "b'\\xff\\x00'",
    "a set": "{1, 2}",
    "objects": "[object(), type, print, sys, Odd.ONE, Path('.')]",
    "numbers of other kinds": "[decimal.Decimal('1.23'), 1 + 2j, True, 10 ** 400]",
    "a number too long to write": "10 ** 5000",
    "keys of other kinds": "{1: 1, None: 2, True: 3, 1.5: 4, (1, 2): 5, b'k': 6, Odd.ONE: 7}",
    "a key too long to write": "{10 ** 5000: 1}",
    "keys that collide": "{1: 'a', '1': 'b', FalseKey('1'): 'c'}",
    "an unprintable object": "{'x': Unprintable(), Unprintable(): 1}",
    "an object whose text is none": "[NotText()]",
    "a pretender": "[Pretender()]",
    "a class that explodes": "[ExplodingClass()]",
    "a mock of a dict": "unittest.mock.MagicMock(spec=dict)",
    "a mock": "unittest.mock.MagicMock()",
    "text that is none": "FalseText('abc')",
    "a model that cannot be dumped": "[Model()]",
    "an iterator": "iter([1])",
    "a mapping that is no dict": "types.MappingProxyType({'a': 1})",
    "other containers": "[collections.deque([1]), collections.OrderedDict(a=1), collections.Counter('aab')]",
    "an exception": "ValueError('not raised', object())",
}


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
async def test_tool_output_that_is_no_json(world: Any, make_module: Any, output: str) -> None:
    """A tool may return anything: the event reaches every handler as strict JSON, and the turn ends as usual."""
    make_module("tool-lying", LYING_TOOL.replace("OUTPUT", output))
    session = await world.started("tool-lying")
    heard: list[Any] = []
    session.coordinator.hooks.register("tool:post", lambda event, data: heard.append(data["result"]))
    answer = await session.execute("lying")
    assert len(heard) == 1
    assert heard[0] is not answer or isinstance(answer, (str, int))
    json.dumps(heard[0], allow_nan=False).encode("utf-8")
    written = [json.loads(line)["event"] for line in session.coordinator.get_capability("steady.lines")]
    assert written[-2:] == ["tool:post", "prompt:complete"]
    assert session.status.status == "completed"
    await world.check(session)


@pytest.mark.parametrize("output", OUTPUTS.values(), ids=OUTPUTS)
async def test_payloads_in_the_other_places(world: Any, make_module: Any, output: str) -> None:
    """The same lies as modified data, collected data, log fields, fragments and details harm nobody either."""
    make_module("tool-lying", LYING_TOOL.replace("OUTPUT", output))
    session = await world.started("tool-lying")
    coordinator = session.coordinator
    lie = await coordinator.get("tools", "lying").execute({})
    heard: list[Any] = []
    records: list[Any] = []
    coordinator.add_log_sink(records.append)
    coordinator.hooks.register("x:y", lambda event, data: {"action": "modify", "data": {"lie": lie}}, priority=-1)
    coordinator.hooks.register("x:y", lambda event, data: heard.append(data))
    result = await coordinator.hooks.emit("x:y", {"lie": lie})
    heard.append(result.data)
    heard.extend(await coordinator.hooks.emit_and_collect("x:y", {"lie": lie}))
    coordinator.log("INFO", "a lie", lie=lie)
    await coordinator.authorize("some.action", {"lie": lie})
    json.dumps([heard, records], allow_nan=False).encode("utf-8")
    assert len(records) == 1
    await world.check(session)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("output", ["shared(64)", "entangled(64)"])
async def test_few_objects_that_would_be_many_when_written_out(world: Any, make_module: Any, output: str) -> None:
    """A few dozen containers that share or refer to each other do not keep an event busy for ever."""
    make_module("tool-lying", LYING_TOOL.replace("OUTPUT", output))
    session = await world.started("tool-lying")
    await session.execute("lying")
    heard = [json.loads(line)["event"] for line in session.coordinator.get_capability("steady.lines")]
    assert heard.count("tool:post") == heard.count("prompt:complete") == 1
    await world.check(session)
