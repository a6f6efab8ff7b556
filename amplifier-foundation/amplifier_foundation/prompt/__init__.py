"""The system prompt and the files in it: instruction, context files, @mentions, AGENTS.md."""

from amplifier_foundation.prompt.access import PromptAccess
from amplifier_foundation.prompt.mention_files import MentionDeduplicator, load_mentions
from amplifier_foundation.prompt.mention_resolver import MentionResolver
from amplifier_foundation.prompt.mentions import Mention, find_mentions
from amplifier_foundation.prompt.system_prompt import SystemPrompt
from amplifier_foundation.prompt.user_input import UserInput

__all__ = [
    "Mention",
    "MentionDeduplicator",
    "MentionResolver",
    "PromptAccess",
    "SystemPrompt",
    "UserInput",
    "find_mentions",
    "load_mentions",
]
