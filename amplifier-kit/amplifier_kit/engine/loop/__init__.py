"""The turn engine that the loops share: from prompt to answer, every event once, every call with its result."""
