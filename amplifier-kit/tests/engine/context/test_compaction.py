"""Each level of compaction does its part, in order, and stops as soon as the goal is met."""

from itertools import count
from typing import Any

from amplifier_kit.config import read_config
from amplifier_kit.engine.context.compaction import LAST_RESORT, Compacted, compact
from amplifier_kit.engine.context.ledger import Conversation
from amplifier_kit.engine.context.token_budget import ContextConfig, estimate_all
from amplifier_kit.engine.pairing import check_pairing

Message = dict[str, Any]
NEVER = 10**9


def user(text: str = "Please do it.") -> Message:
    return {"role": "user", "content": text}


def answer(text: str = "Done.") -> Message:
    return {"role": "assistant", "content": text}


_numbers = count()


def exchange(size: int = 4000, results: int = 1) -> list[Message]:
    """One assistant message with calls, and their results of `size` characters."""
    ids = [f"call-{next(_numbers):06d}" for _ in range(results)]
    asked = {"role": "assistant", "content": "", "tool_calls": [{"id": call, "tool": "t"} for call in ids]}
    return [asked, *({"role": "tool", "tool_call_id": call, "content": "x" * size} for call in ids)]


def made_of(messages: list[Message], goal: int, *, limit: int = NEVER, window: int = NEVER, **config: Any) -> Compacted:
    talk = Conversation()
    for message in messages:
        talk.append(message)
    settings = read_config(ContextConfig, config, module="context-simple")
    made = compact(talk, len(talk), settings, goal=goal, window=window, limit=limit)
    assert made.tokens == estimate_all(made.messages)
    assert check_pairing(made.messages) == []
    return made


def truncated_positions(messages: list[Message], made: Compacted) -> list[int]:
    """Return which of the tool results are truncated, by their order among all."""
    ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    return [ids.index(message["tool_call_id"]) for message in made.messages if message.get("_truncated")]


def long_session(exchanges: int = 20, size: int = 4000) -> list[Message]:
    messages = [user("First of all: " + "read the rules. " * 10)]
    for _ in range(exchanges):
        messages += exchange(size)
    return [*messages, user("And now?")]


def test_level_1_truncates_the_oldest_quarter() -> None:
    """The oldest tool results are truncated first, no more of them than it takes."""
    messages = long_session()
    total = estimate_all(messages)
    made = made_of(messages, total - 1)
    assert (made.level, made.truncated, made.removed) == (1, 1, 0)
    made = made_of(messages, total - 4000)
    assert (made.level, truncated_positions(messages, made)) == (1, [0, 1, 2, 3, 4])


def test_level_2_truncates_the_second_quarter() -> None:
    """Up to half of the tool results are truncated before anything is removed."""
    messages = long_session()
    made = made_of(messages, estimate_all(messages) - 9000)
    assert (made.level, truncated_positions(messages, made), made.removed) == (2, list(range(10)), 0)


def test_a_truncated_result_says_what_it_was() -> None:
    """It keeps the first 250 characters and carries `_truncated` and `_original_tokens`."""
    messages = long_session()
    made = made_of(messages, estimate_all(messages) - 1)
    [short] = [message for message in made.messages if message.get("_truncated")]
    original = messages[2]
    assert short["content"].startswith("x" * 250 + "... [truncated: 250 of 4000 characters")
    assert short["_original_tokens"] == estimate_all([original])
    assert "_truncated" not in original


def test_level_3_removes_the_oldest_outside_the_protection() -> None:
    """Whole units go, the oldest first, until the goal is met; the newest 30 % of the messages stay."""
    messages = long_session()
    made = made_of(messages, estimate_all(messages) - 11_500)
    assert made.level == 3
    assert made.removed % 2 == 0
    assert made.removed > 0
    assert made.messages[0] == messages[0]
    assert made.messages[1:] != messages[1:]
    assert made.messages[-13:] == messages[-13:]


def test_level_4_truncates_three_quarters() -> None:
    """When no more can be removed at full protection, three quarters of the tool results are truncated."""
    messages = long_session()
    made = made_of(messages, 7200, protected_recent=1)
    assert (made.level, truncated_positions(messages, made), made.removed) == (4, list(range(15)), 0)


def test_level_5_removes_with_less_protection() -> None:
    """With 60 % of the protection more may go."""
    messages = long_session()
    made = made_of(messages, 6800, protected_recent=1)
    assert made.level == 5
    assert made.removed > 0
    assert [message["role"] for message in made.messages[-26:]] == [message["role"] for message in messages[-26:]]


def test_level_6_truncates_all_but_the_last_results() -> None:
    """Only the protected tool results are left alone."""
    messages = long_session()
    made = made_of(messages, 3600, protected_recent=1, protected_tool_results=2)
    assert made.level == 6
    whole = [message for message in made.messages if message["role"] == "tool" and "_truncated" not in message]
    assert whole == [message for message in messages if message["role"] == "tool"][-2:]


def test_level_7_removes_with_the_least_protection() -> None:
    """With 30 % of the protection only the newest messages stay."""
    messages = long_session()
    made = made_of(messages, 2900, protected_recent=1, protected_tool_results=2)
    assert made.level == 7
    assert [message["role"] for message in made.messages[-13:]] == [message["role"] for message in messages[-13:]]


def test_level_8_gives_up_old_stubs() -> None:
    """The first user message is stubbed, and other old user messages are dropped, the oldest first."""
    messages = [user(f"{number}: " + "a rather long wish " * 10) for number in range(20)]
    stubs = made_of(messages, 900)
    assert (stubs.level, stubs.removed) == (3, 0)
    assert stubs.messages[0] == messages[0]
    made = made_of(messages, 700)
    assert made.level == 8
    assert made.messages[0]["_stubbed"]
    assert made.messages[0]["content"].startswith("0: ")
    assert made.messages[1]["content"].startswith(f"{made.removed + 1}: ")
    assert made.messages[-1] == messages[-1]


def test_user_messages_are_stubbed_not_removed() -> None:
    """A long one keeps its first 50 characters and carries `_stubbed` and `_original_length`; a short one stays."""
    long = "word " * 40
    messages = [user("first"), user("x" * 80), user(long), *exchange(10), *[answer("y" * 400)] * 10, user("last")]
    made = made_of(messages, 10, protected_recent=0.05)
    assert made.level == 8
    before = made_of(messages, 150, protected_recent=0.05)
    assert before.level == 3
    [stub] = [message for message in before.messages if message.get("_stubbed")]
    assert stub["content"].startswith(long[:50] + "...")
    assert stub["_original_length"] == 200
    assert user("x" * 80) in before.messages


def test_old_images_are_stubbed() -> None:
    """An old message loses its images with its stub, however short its text is; the last one keeps them."""
    image = {"type": "image", "source": {"data": "A" * 9000}}
    looks = [{"role": "user", "content": [{"type": "text", "text": f"look {n}"}, image]} for n in range(3)]
    made = made_of([user("first"), *looks], 1700, protected_recent=0)
    assert [message["content"] for message in made.messages[1:3]] == ["look 0\n[image]", "look 1\n[image]"]
    assert made.messages[-1] == looks[-1]


def test_the_first_and_last_user_messages_are_spared() -> None:
    """Below level 8 the first wish stays whole, and the last one always does."""
    first, last = user("the first wish " * 20), user("the last wish " * 20)
    messages = [first, *[user("some other wish " * 20)] * 5, *[answer("z" * 4000)] * 5, last]
    made = made_of(messages, 700, protected_recent=0)
    assert made.level == 3
    assert made.messages[0] == first
    assert made.messages[-1] == last


def test_what_a_hook_says_for_the_user_does_not_replace_the_last_wish() -> None:
    """A reminder after the last wish leaves that wish untouched."""
    wish = user("do this and nothing else: " * 20)
    reminder = {**user("<system-reminder>be quick</system-reminder>"), "metadata": {"source": "hook"}}
    made = made_of([user("x" * 500), answer("y" * 4000), wish, *exchange(), reminder], 10)
    assert wish in made.messages
    assert reminder in made.messages


def test_the_very_last_user_message_is_spared_too() -> None:
    """The last user message is not shortened either, even if a hook wrote it."""
    reminder = {**user("<system-reminder>" + "be quick " * 20), "metadata": {"source": "hook"}}
    made = made_of([user("x" * 500), user("the wish"), reminder, *exchange(), *exchange()], 10, protected_recent=0)
    assert reminder in made.messages
    assert user("the wish") in made.messages


def test_parallel_calls_go_together() -> None:
    """A message that called several tools is removed with all its results, or stays with all of them."""
    messages = [user(), *exchange(400, results=4), *exchange(400, results=3), *exchange(400), user("now")]
    assert made_of(messages, 450, protected_recent=0.2).removed in (5, 9)


def test_protection_is_no_larger_than_its_share_of_the_budget() -> None:
    """In a long history 30 % of the messages alone would exceed the budget: then 30 % of the budget is protected."""
    messages = long_session(200)
    made = made_of(messages, 10_000, window=20_000)
    assert made.level == 3
    assert made.tokens <= 10_000
    assert made.messages[-12:] == messages[-12:]


def test_pinned_messages_are_never_removed() -> None:
    """A message with tool search items stays, with its results, when everything around it goes."""
    pinned = exchange(300)
    pinned[0]["metadata"] = {"openai:tool_search_items": ["x"]}
    made = made_of([user(), *pinned, *[answer("y" * 900)] * 20, user("now")], 1, limit=400)
    assert pinned[0] in made.messages
    assert made.level == LAST_RESORT


def test_system_messages_go_to_the_front() -> None:
    """What hooks injected into the system part is taken out of the conversation and put before it."""
    injected = {"role": "system", "content": "mind the gap", "metadata": {"source": "hook"}}
    made = made_of([user(), answer("y" * 4000), injected, user("now")], 100)
    assert made.messages == [injected, user(), user("now")]


def test_a_goal_that_is_met_changes_nothing() -> None:
    """Without need nothing is done."""
    messages = long_session()
    made = made_of(messages, NEVER)
    assert (made.level, made.has_changes, made.messages) == (0, False, messages)


def test_the_last_resort_gives_up_everything_that_is_not_required() -> None:
    """When the request could not be sent at all, the user's last words and the latest exchange are what is left."""
    latest = exchange(100)
    messages = [user("first"), *exchange(40_000, results=5), user("last words"), *exchange(40_000), *latest]
    made = made_of(messages, 10, limit=75)
    assert made.level == LAST_RESORT
    assert made.tokens <= 75
    assert made.messages == [user("last words"), *latest]


def test_the_last_resort_clips_the_latest_results_to_fit() -> None:
    """Of a result that is too large on its own as much is shown as there is room for, beginning and end."""
    messages = [user("last words"), *exchange(40_000, results=2)]
    made = made_of(messages, 10, limit=1000)
    assert made.level == LAST_RESORT
    assert 700 < made.tokens <= 1000
    shown = [message for message in made.messages if message["role"] == "tool"]
    assert [message["_original_tokens"] for message in shown] == [estimate_all([message]) for message in messages[2:]]
    assert all("clipped: the whole result has 40000 bytes" in message["content"] for message in shown)


def test_injected_system_messages_go_last() -> None:
    """Hooks that never stop talking cannot brick a session: in the last resort the oldest of it goes."""
    injected = [{"role": "system", "content": f"{n} " * 400, "metadata": {"source": "hook"}} for n in range(9)]
    made = made_of([user("first"), *injected, user("last words")], 10, limit=700)
    assert made.tokens <= 700
    assert made.messages[-1] == user("last words")
    assert made.messages[:-1] == injected[-len(made.messages) + 1 :]
    assert len(made.messages) > 2


def test_what_is_required_may_still_be_too_large() -> None:
    """The caller sees it from the number of tokens; required messages are not cut."""
    words = user("w" * 4000)
    made = made_of([user("first"), answer("y" * 9000), words], 10, limit=500)
    assert made.messages == [words]
    assert made.tokens > 500


def test_removing_at_once_changes_nothing() -> None:
    """Skipping the truncation of what is removed anyway gives what truncating it first would give."""
    messages = [user("first")]
    for number in range(60):
        messages += [
            *exchange(200 + 37 * number % 900, results=1 + number % 3),
            user(f"wish {number} " * (number % 20)),
        ]

    class Slow(Conversation):
        def doomed_until(self, goal: int, end: int) -> int:
            return 0

    settings = ContextConfig()
    for goal in range(200, 12_000, 700):
        quick, slow = Conversation(), Slow()
        for message in messages:
            quick.append(message)
            slow.append(message)
        one = compact(quick, len(quick), settings, goal=goal, window=12_000, limit=NEVER)
        other = compact(slow, len(slow), settings, goal=goal, window=12_000, limit=NEVER)
        assert one == other
