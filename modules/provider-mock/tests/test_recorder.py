"""Recording a run, and playing it back."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import (
    AmplifierSession,
    ChatRequest,
    ChatResponse,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
)
from amplifier_core.llm_errors import LLMError, RateLimitError
from amplifier_module_provider_mock.recorder import Recording, RecordingProvider
from amplifier_module_provider_mock.scenario import ScenarioError, Script, load_scenario

Plan = Callable[..., dict[str, Any]]
Write = Callable[[str], Path]

REAL = """
turns:
  - thinking: |
      Two lines
      of thought.
    text: "Let me see:\\n\\n  - here"
    tool_calls: [{id: toolu_1, name: look, arguments: {where: "2026-11-15", deep: {a: [1, 2.5, null, "no"]}}}]
    usage: {input_tokens: 120, output_tokens: 15, total_tokens: 135, cache_read_tokens: 100, cost_usd: "0.0012"}
  - error: {type: RateLimitError, message: "slow: down", status_code: 429, retry_after: 1.5}
  - text: A desk. ✓
"""


class Other:
    """A provider that answers what it is given."""

    name = "other"
    priority = 5

    def __init__(self, *answers: ChatResponse | LLMError) -> None:
        self._answers = iter(answers)

    async def complete(self, request: ChatRequest, **kwargs: Any) -> ChatResponse:
        """Return the next answer, or raise it."""
        answer = next(self._answers)
        if isinstance(answer, LLMError):
            raise answer
        return answer


class TooMany(RateLimitError):
    """An error of a provider's own."""


REQUEST = ChatRequest(messages=[Message(role="user", content="hi")])


async def run_turns(plan: dict[str, Any], turns: int, **options: Any) -> list[str]:
    """Run prompts in one session and return the answers, or what was raised instead."""
    answers = []
    async with AmplifierSession(plan, **options) as session:
        for _ in range(turns):
            try:
                answers.append(await session.execute("hello"))
            except LLMError as error:
                answers.append(repr(error))
    return answers


async def test_a_recorded_run_gives_the_same_answers(plan: Plan, tmp_path: Path, scenario_file: Write) -> None:
    """A run is recorded, played back, and recorded again: the answers and the two recordings are the same."""
    source = scenario_file(REAL)
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    answers = []
    for scenario, record in ((source, first), (first, second)):
        config = {"scenario": str(scenario), "record": str(record)}
        answers.append(await run_turns(plan([{"module": "provider-mock", "config": config}]), 2))
    assert answers[0] == answers[1]
    assert answers[0][0].startswith("RateLimitError('slow: down'")
    assert answers[0][1] == "A desk. ✓"
    assert first.read_text(encoding="utf-8") == second.read_text(encoding="utf-8")
    recorded, original = load_scenario(first), load_scenario(source)
    assert recorded.turns[0].reply == original.turns[0].reply
    assert recorded.turns[2].reply.text == original.turns[2].reply.text


async def test_another_provider_is_recorded(plan: Plan, tmp_path: Path, scenario_file: Write) -> None:
    """The provider that is named is recorded and answers, with the mock beside it standing back."""
    other = tmp_path / "modules" / "amplifier_module_provider_recorded_other"
    scenario_file("turns: [{text: from the mock}]")
    make = plan  # its folder is there now
    other.mkdir()
    (other / "__init__.py").write_text(
        "from amplifier_core import ProviderInfo, ChatResponse, TextBlock\n"
        "class Other:\n"
        "    name, priority = 'other', 500\n"
        "    def get_info(self): return ProviderInfo(id='other', display_name='Other')\n"
        "    async def list_models(self): return []\n"
        "    async def complete(self, request, **kwargs):\n"
        "        return ChatResponse(content=[TextBlock(text='from the other')])\n"
        "    def parse_tool_calls(self, response): return []\n"
        "async def mount(coordinator, config=None):\n"
        "    await coordinator.mount('providers', Other(), name='other')\n",
        encoding="utf-8",
    )
    mock = {"module": "provider-mock", "config": {"record": "out/run.yaml", "record_provider": "other"}}
    answers = await run_turns(make([mock, {"module": "provider-recorded-other"}]), 1)
    assert answers == ["from the other"]
    assert (tmp_path / "out" / "run.yaml").read_text(encoding="utf-8") == "turns:\n- text: from the other\n"


async def test_a_provider_that_is_not_there(plan: Plan, tmp_path: Path) -> None:
    """Recording a provider that is not mounted fails in the open, and the session goes on without."""
    failures: list[str] = []
    config = {"record": "run.yaml", "record_provider": "nobody", "responses": ["ok"]}
    session = AmplifierSession(plan([{"module": "provider-mock", "config": config}]))
    session.coordinator.hooks.register(
        "module:on_session_ready_failed", lambda event, data: failures.append(data["error"])
    )
    async with session:
        assert await session.execute("x") == "ok"
    [failure] = failures
    assert "record_provider: no provider 'nobody' is mounted; there are ['mock']" in failure
    assert not (tmp_path / "run.yaml").exists()


async def test_children_are_recorded_under_their_names(
    plan: Plan, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Root and children write one file; of several children of one agent the first is kept."""
    path = tmp_path / "run.yaml"

    def entry(*responses: str) -> list[dict[str, Any]]:
        return [{"module": "provider-mock", "config": {"record": str(path), "responses": list(responses)}}]

    async with AmplifierSession(plan(entry("root one", "root two"))) as root:
        await root.execute("x")
        child = {"parent_id": root.session_id}
        assert await run_turns(plan(entry("child"), agent_name="explorer"), 1, **child) == ["child"]
        with caplog.at_level(logging.WARNING):
            assert await run_turns(plan(entry("second"), agent_name="explorer"), 1, **child) == ["second"]
            assert await run_turns(plan(entry("nameless")), 1, **child) == ["nameless"]
        await root.execute("x")
    scenario = load_scenario(path)
    assert [entry.reply.text for entry in scenario.turns] == ["root one", "root two"]
    assert {name: [entry.reply.text for entry in entries] for name, entries in scenario.agents.items()} == {
        "explorer": ["child"]
    }
    assert "a run of agent 'explorer' is recorded already" in caplog.text
    assert "a child without an agent name" in caplog.text


async def test_a_new_recording_takes_the_place_of_the_old(tmp_path: Path) -> None:
    """The root begins a new file, whatever lay there."""
    path = tmp_path / "run.yaml"
    path.write_text("[something else", encoding="utf-8")
    recording = Recording(path)
    assert path.read_text(encoding="utf-8") == "turns: []\n"
    path.write_text("[something else", encoding="utf-8")
    recording.keep({"text": "a"})
    assert path.read_text(encoding="utf-8") == "turns:\n- text: a\n"


async def test_secrets_are_masked_in_the_file(tmp_path: Path) -> None:
    """With redaction in the session, the file gets the mask and the session the secret."""
    path = tmp_path / "run.yaml"
    recording = Recording(path, scrub=lambda entry: {**entry, "text": entry["text"].replace("s3cret", "***")})
    provider = RecordingProvider(Other(ChatResponse(content=[TextBlock(text="the s3cret")])), recording)
    response = await provider.complete(REQUEST)
    assert response.content[0].text == "the s3cret"
    assert "s3cret" not in path.read_text(encoding="utf-8")


async def test_the_run_is_worth_more_than_its_recording(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A recording that cannot be written is an error in the log; the answer comes all the same."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    recording = Recording(tmp_path / "file" / "run.yaml")
    provider = RecordingProvider(Other(ChatResponse(content=[TextBlock(text="a")])), recording)
    assert (await provider.complete(REQUEST)).content[0].text == "a"
    assert "cannot write the recording" in caplog.text


async def test_everything_else_is_the_providers_own(tmp_path: Path) -> None:
    """A recorded provider has the name, the priority and whatever else the provider has."""
    provider = RecordingProvider(Other(), Recording(tmp_path / "run.yaml"))
    assert (provider.name, provider.priority) == ("other", 5)
    with pytest.raises(AttributeError, match="fly"):
        _ = provider.fly
    assert copy.copy(provider).name == "other"


async def test_errors_are_recorded_as_what_they_are(tmp_path: Path) -> None:
    """An error of the provider's own class is recorded as the nearest one that everybody knows."""
    path = tmp_path / "run.yaml"
    provider = RecordingProvider(Other(TooMany("wait", retry_after=2.0)), Recording(path))
    with pytest.raises(TooMany):
        await provider.complete(REQUEST)
    [entry] = load_scenario(path).turns
    assert entry.reply.error == {"type": "RateLimitError", "message": "wait", "retryable": True, "retry_after": 2.0}


texts = st.text()
arguments = st.dictionaries(
    st.text(), st.recursive(st.none() | st.booleans() | st.integers() | texts, st.lists), max_size=3
)
answers = st.builds(
    lambda thinking, text, calls, usage: ChatResponse(
        content=[ThinkingBlock(thinking=thinking), TextBlock(text=text)],
        tool_calls=[
            ToolCall(id=f"c{number}", name=name, arguments=given) for number, (name, given) in enumerate(calls)
        ],
        usage=usage,
    ),
    texts,
    texts,
    st.lists(st.tuples(st.text(min_size=1), arguments), max_size=2),
    st.none()
    | st.builds(
        Usage,
        input_tokens=st.integers(0, 9),
        output_tokens=st.integers(0, 9),
        total_tokens=st.integers(0, 9),
        cost_usd=st.none() | st.decimals(0, 9, places=4),
    ),
)


@given(st.lists(answers, max_size=3))
def test_whatever_is_said_can_be_replayed(said: list[ChatResponse]) -> None:
    """Any run of answers that is recorded is played back with the same texts, calls and usage."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run.yaml"
        provider = RecordingProvider(Other(*said), Recording(path))

        async def record() -> None:
            for _ in said:
                await provider.complete(REQUEST)

        asyncio.run(record())
        script = Script(load_scenario(path))
        for response in said:
            reply = script.next(REQUEST.messages, [])
            assert (reply.thinking, reply.text) == (response.content[0].thinking, response.content[1].text)  # type: ignore[union-attr]
            calls = [(call.id, call.name, call.arguments) for call in response.tool_calls or []]
            assert [(call["id"], call["name"], call["arguments"]) for call in reply.tool_calls] == calls
            if response.usage is not None:
                assert reply.usage["input_tokens"] == response.usage.input_tokens
                assert reply.usage.get("cost_usd", Decimal(0)) == (response.usage.cost_usd or 0)


async def test_a_recording_stays_in_the_project(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link in the project that leads out of it is no place for a recording, and no scenario either."""
    make: Any = plan
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "run.yaml").write_text("turns: [{text: mine}]\n")
    (project / "folder").symlink_to(outside)
    monkeypatch.chdir(project)
    config = {"record": "folder/run.yaml", "responses": ["ok"]}
    await run_turns(make([{"module": "provider-mock", "config": config}]), 1)
    assert (outside / "run.yaml").read_text() == "turns: [{text: mine}]\n"
    with pytest.raises(ScenarioError, match="by a link"):
        load_scenario(project / "folder" / "run.yaml", project)


async def test_a_control_file_is_no_recording(
    plan: Plan, tmp_path: Path, scenario_file: Write, caplog: pytest.LogCaptureFixture
) -> None:
    """A recording that would take the place of what git or a session runs is not written, and that is said."""
    (tmp_path / ".git").mkdir()
    config = {"scenario": str(scenario_file(REAL)), "record": ".git/config", "working_dir": str(tmp_path)}
    await run_turns(plan([{"module": "provider-mock", "config": config}]), 1)
    assert list((tmp_path / ".git").iterdir()) == []
    assert "cannot write the recording" in caplog.text
