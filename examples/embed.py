import asyncio

from amplifier_core import AmplifierSession

PLAN = {
    "session": {"orchestrator": {"module": "loop-tiny"}, "context": {"module": "context-tiny"}},
    "providers": [{"module": "provider-scripted"}],
    "tools": [{"module": "tool-words"}],
}


def show(event, data):
    print(f"{event:22} {data.get('tool_name') or data.get('action') or ''}".rstrip())


async def main():
    session = AmplifierSession(PLAN)
    session.coordinator.hooks.register("*", show)
    session.coordinator.register_policy("demo", lambda action, details: ("allow", "counting words is harmless"))
    async with session:
        answer = await session.execute("How many words are in this sentence?")
    print(f"\n{answer}")


asyncio.run(main())
