"""Answers in a form: `amplifier run --output-schema`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_SCHEMA = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        ('{"count": 3}', None),
        ('{"count": "three"}', "at $.count: 'three' is not of type 'integer'"),
        ("three", "invalid JSON"),
    ],
)
def test_an_answer_is_held_against_the_schema(
    amplifier: Amplifier, scripted: Callable[..., str], project: Path, answer: str, fault: str | None
) -> None:
    """An answer that fits is the result; one that does not is a failure that says where."""
    (project / "schema.json").write_text(json.dumps(_SCHEMA), encoding="utf-8")
    bundle = scripted(f"turns: [{{text: {json.dumps(answer)}}}]")
    result = amplifier("run", "go", "--bundle", bundle, "--output-schema", "schema.json", "--output-format", "json")
    record = json.loads(result.stdout)
    assert record["response"] == answer
    if fault is None:
        assert (result.returncode, record["status"]) == (0, "success")
    else:
        assert (result.returncode, record["error_type"]) == (1, "output_invalid")
        assert fault in result.stderr


def test_the_model_is_asked_for_the_form(amplifier: Amplifier, scripted: Callable[..., str], project: Path) -> None:
    """The schema is in the request that the provider gets."""
    (project / "schema.json").write_text(json.dumps(_SCHEMA), encoding="utf-8")
    package = project / "asked" / "amplifier_module_tool_asked"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        """
from pathlib import Path

class Nothing:
    name = "nothing"
    description = "Do nothing."
    input_schema = {"type": "object", "properties": {}}
    async def execute(self, input):
        raise NotImplementedError

async def mount(coordinator, config=None):
    await coordinator.mount("tools", Nothing())
    def before(event, data):
        provider = next(iter(coordinator.get("providers").values()))
        complete = provider.complete
        async def noting(request, **more):
            Path("asked.json").write_text(request.model_dump_json(by_alias=True))
            return await complete(request, **more)
        provider.complete = noting
    coordinator.hooks.register("prompt:submit", before, name="asked")
""",
        encoding="utf-8",
    )
    bundle = scripted("turns: [{text: '{\"count\": 1}'}]", "tools: [{module: tool-asked, source: ./asked}]\n")
    result = amplifier("run", "go", "--bundle", bundle, "--trust", "--output-schema", "schema.json")
    assert result.returncode == 0, result.stderr
    asked = json.loads((project / "asked.json").read_text(encoding="utf-8"))
    assert asked["response_format"]["schema"] == _SCHEMA


@pytest.mark.parametrize("text", ["{", "[]", '{"type": "nothing"}', None])
def test_a_schema_that_is_none(amplifier: Amplifier, project: Path, text: str | None) -> None:
    """A file that is no schema is a mistake of usage, told before anything runs."""
    if text is not None:
        (project / "schema.json").write_text(text, encoding="utf-8")
    result = amplifier("run", "go", "--output-schema", "schema.json")
    assert result.returncode == 2
    assert "schema.json" in result.stderr
    assert "log:" not in result.stderr
