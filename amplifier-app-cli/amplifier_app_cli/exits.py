"""The exit codes of `amplifier`: one meaning each, for scripts."""

OK = 0
FAILURE = 1
USAGE = 2
APPROVAL_NEEDED = 3
PROMPT_DENIED = 4
BUDGET_EXHAUSTED = 5
MODULES = 6
PROVIDER = 7
HUNG_UP = 129
INTERRUPTED = 130
TERMINATED = 143
