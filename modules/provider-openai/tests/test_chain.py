"""Going on from responses that the service keeps."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.llm_errors import InvalidRequestError
from amplifier_testing.llm import Reply, ResponsesWire, Said
from amplifier_testing.llm.rig import Rig, ask

WIRE = ResponsesWire()
MakeRig = Callable[..., Awaitable[Rig]]


def _stored(response: Any) -> dict[str, Any]:
    content = [block.model_dump() for block in response.content]
    return {"role": "assistant", "content": content, "metadata": response.metadata}


def _user(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]} for text in texts]


async def test_only_what_is_new_is_sent(rig: MakeRig) -> None:
    """While the service has the history, a request holds what came since, and the instructions again."""
    one = await rig(WIRE.stream([WIRE.message("a")], response_id="r1"), Said())
    first = _stored(await one.provider.complete(ask(("system", "Be kind."), "x")))
    await one.provider.complete(ask(("system", "Be kind."), "x", first, "y"))
    before, after = one.server.bodies
    assert before["store"] is after["store"] is True
    assert "previous_response_id" not in before
    assert (after["previous_response_id"], after["input"]) == ("r1", _user("y"))
    assert after["instructions"] == "Be kind."


@pytest.mark.parametrize("change", ["edited", "note", "compacted", "model", "answer"])
async def test_everything_is_sent_when_the_history_differs(rig: MakeRig, change: str) -> None:
    """What the service keeps is used only if it is what we would send."""
    one = await rig(Said(("a",)), Said())
    asked: list[Any] = ["w", ("assistant", "v"), "x"]
    first = _stored(await one.provider.complete(ask(*asked, *(["a note"] if change == "note" else []))))
    if change == "edited":
        asked[0] = "W"
    if change == "compacted":
        asked = asked[2:]
    if change == "answer":
        first["content"][0]["text"] = "[redacted]"
    await one.provider.complete(ask(*asked, first, "y", model="gpt-5.4" if change == "model" else None))
    after = one.server.bodies[-1]
    assert "previous_response_id" not in after
    assert len(after["input"]) == len(asked) + 2


async def test_another_address(rig: MakeRig) -> None:
    """A response that another server keeps is not gone on from."""
    one = await rig(Said())
    first = _stored(await one.provider.complete(ask("x")))
    other = await rig(Said(), base_url=f"{one.server.url}/other")
    await other.provider.complete(ask("x", first, "y"))
    assert "previous_response_id" not in one.server.bodies[-1]


@pytest.mark.parametrize(
    ("config", "stores"),
    [
        ({}, True),
        ({"default_model": "gpt-4.1"}, False),
        ({"default_model": "gpt-4.1", "enable_response_chaining": True}, True),
        ({"enable_response_chaining": "false"}, False),
        ({"enable_response_chaining": False, "enable_state": True}, True),
    ],
)
async def test_what_is_kept_at_the_service(rig: MakeRig, config: dict[str, Any], stores: bool) -> None:
    """Responses are kept for chains and when that is wanted, and else not."""
    one = await rig(Said(), Said(), **config)
    first = _stored(await one.provider.complete(ask("x")))
    await one.provider.complete(ask("x", first, "y"))
    before, after = one.server.bodies
    assert before["store"] is after["store"] is stores
    is_chained = stores and "enable_state" not in config
    assert ("previous_response_id" in after) is is_chained
    assert ("openai:chain" in first["metadata"]) is is_chained


@pytest.mark.parametrize(
    "refusal",
    [
        WIRE.refusal(400, "previous_response_not_found", "Previous response with id 'r1' not found."),
        WIRE.refusal(404, "", "Previous response cannot be found"),
    ],
)
async def test_a_lost_response(rig: MakeRig, refusal: Reply) -> None:
    """When the service has lost the response, everything is sent in the same attempt, and it is told."""
    one = await rig(WIRE.stream([WIRE.message("a")], response_id="r1"), refusal, Said(("b",)), Said(("c",)))
    first = _stored(await one.provider.complete(ask("x")))
    response = await one.provider.complete(ask("x", first, "y"))
    assert response.text == "b"
    told = one.event("provider:response_chain_invalidated")
    assert (told["provider"], told["model"], told["invalidated_id"]) == ("openai", "gpt-5.5", "r1")
    assert told["error_code"] in ("previous_response_not_found", "404")
    assert [len(body["input"]) for body in one.server.bodies] == [1, 1, 3]
    assert one.events("provider:retry") == []
    await one.provider.complete(ask("x", first, "z"))
    assert "previous_response_id" not in one.server.bodies[-1]


async def test_other_refusals_stay_errors(rig: MakeRig) -> None:
    """A refusal for another reason breaks no chain."""
    one = await rig(Said(), WIRE.refusal(400, "", "no such tool"))
    first = _stored(await one.provider.complete(ask("x")))
    with pytest.raises(InvalidRequestError):
        await one.provider.complete(ask("x", first, "y"))
    assert one.events("provider:response_chain_invalidated") == []


async def test_reasoning_that_cannot_be_read(rig: MakeRig, caplog: pytest.LogCaptureFixture) -> None:
    """Reasoning of another account is left out from then on, with a warning."""
    sealed = WIRE.refusal(400, "invalid_encrypted_content", "The encrypted content could not be verified.")
    one = await rig(Said(("a",), ("Hm.",)), sealed, Said(("b",)), enable_response_chaining=False)
    first = _stored(await one.provider.complete(ask("x")))
    assert (await one.provider.complete(ask("x", first, "y"))).text == "b"
    await one.provider.complete(ask("x", first, "z"))
    kinds = [[item["type"] for item in body["input"]] for body in one.server.bodies]
    assert kinds[1] == ["message", "reasoning", "message", "message"]
    assert kinds[2] == kinds[3] == ["message"] * 3
    assert caplog.text.count("cannot read the reasoning") == 1


async def test_reasoning_that_cannot_be_read_at_all(rig: MakeRig) -> None:
    """Without reasoning to leave out, the refusal is an error."""
    one = await rig(WIRE.refusal(400, "invalid_encrypted_content", "no"))
    with pytest.raises(InvalidRequestError):
        await one.provider.complete(ask("x"))
    assert len(one.server.requests) == 1
