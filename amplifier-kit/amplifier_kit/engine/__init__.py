"""The turn loop and what it works on: messages, tool calls, budgets and usage, contexts, child sessions."""
