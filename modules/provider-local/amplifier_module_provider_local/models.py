"""What is known of models: limits, settings that were tried, and how much of a session's prompt they can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from amplifier_core.message_models import ToolSpec
from amplifier_kit.local_model import CODER, SMALL_MODEL
from amplifier_kit.named_tuple import NamedTuple
from amplifier_module_provider_local.grammar import FENCE, TAGS, CallStyle


class Profile(NamedTuple):
    """How to ask a model."""

    #: None for models of which only the file is known.
    title: str | None
    #: The usual context window and the longest answer, in tokens.
    context: int
    answer: int
    temperature: float | None
    #: While tools are offered.
    tool_temperature: float | None
    top_p: float | None
    #: How calls are written.
    style: CallStyle
    #: Whether the model gets a lean prompt unless the config says otherwise, and which tools are in such a prompt.
    is_lean: bool
    lean_tools: tuple[ToolSpec, ...]
    #: Tokens of a request besides the conversation, where that is less than a whole session's tools.
    overhead: int | None
    #: Whether it may make several calls in one answer: a small model repeats the same call.
    is_parallel: bool


def _tool(name: str, description: str, **parameters: str) -> ToolSpec:
    properties = {
        key: {"type": "string", **({"description": text} if text else {})} for key, text in parameters.items()
    }
    schema = {"type": "object", "properties": properties, "required": list(parameters)}
    return ToolSpec(name=name, description=description, parameters=schema)


#: List, read, edit and run: in a few words each, as small models take long to read and lose the thread. The first one
#: is the example of a call, which models copy: so it is one that is good to begin with.
LEAN_TOOLS: Final = (
    _tool("glob", "List files by a pattern such as *.py or **/*.py.", pattern=""),
    _tool("read_file", "Read a file.", file_path=""),
    _tool(
        "edit_file",
        "Replace a text in a file. Copy old_string from the file: it must be there exactly once.",
        file_path="",
        old_string="",
        new_string="",
    ),
    _tool("bash", "Run a shell command in the project folder, for example the tests.", command=""),
)

#: Of eleven settings that were tried, the best for a model of this size: the likeliest words, without a penalty.
_SMALL: Final = Profile("SmolLM2 135M Instruct", 4096, 512, 0.0, 0.0, None, TAGS, True, (), None, False)
_CODER: Final = Profile(CODER.title, 4096, 1024, 0.2, 0.0, 0.9, FENCE, True, LEAN_TOOLS, 700, False)
#: Longer windows have to be configured: they take memory from the start.
_OTHER: Final = Profile(None, 8192, 4096, 0.7, 0.7, None, TAGS, False, LEAN_TOOLS, None, True)
_KNOWN: Final = {SMALL_MODEL: _SMALL, CODER.name: _CODER}


def profile_of(model: str, *, is_file: bool) -> Profile:
    """Return the profile of an installed model by its name, or of a file that somebody named."""
    return _OTHER if is_file else _KNOWN.get(model, _SMALL)


def lean_tools(profile: Profile, offered: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the short forms of the tools that a session offers, if they have the parameters of the short form."""
    known = {tool.name: _properties(tool) for tool in offered}
    return [tool for tool in profile.lean_tools if tool.name in known and _properties(tool) <= known[tool.name]]


def _properties(tool: ToolSpec) -> set[str]:
    return set(tool.parameters.get("properties") or {})
