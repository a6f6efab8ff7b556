"""The system prompt and the files in it: instruction, context files, @mentions, AGENTS.md."""
