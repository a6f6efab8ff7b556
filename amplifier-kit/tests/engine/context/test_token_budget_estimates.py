"""Token estimates are a quarter of the text."""

from amplifier_kit.engine.context.token_budget import estimate_all, estimate_tokens


def test_an_estimate_is_a_quarter_of_the_characters() -> None:
    """One message takes `len(str(message)) // 4` tokens, keys and metadata included."""
    message = {"role": "user", "content": "x" * 1000, "metadata": {"timestamp": "now"}}
    assert estimate_tokens(message) == len(str(message)) // 4 == 266


def test_several_messages_are_estimated_one_by_one() -> None:
    """The estimate of a list is the sum of its messages' estimates, so that it can be kept per message."""
    messages = [{"role": "user", "content": "a" * size} for size in range(9)]
    assert estimate_all(messages) == sum(len(str(message)) // 4 for message in messages)
    assert estimate_all([]) == 0


def test_an_image_is_not_read_as_text() -> None:
    """However many bytes encode an image, it counts 1600 tokens at most; a tiny one counts what it takes."""
    text = {"type": "text", "text": "What is this?"}
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 1_000_000}}
    tiny = {"type": "image", "source": {"type": "base64", "data": "A" * 40}}
    bare = estimate_tokens({"role": "user", "content": [text]})
    assert estimate_tokens({"role": "user", "content": [text, image]}) == bare + 1600
    assert bare < estimate_tokens({"role": "user", "content": [text, tiny]}) < bare + 40
