"""Rules over actions: `parse_rules` reads them, `facts` says what an action would do, `RuleSet.decide` judges it.

Deny is absolute, ask is a floor, allow must cover every part: each command of a shell line, each file it writes, each
path, each host. An action that nothing matches has no verdict (`None`), and the caller denies it. An action that
cannot be understood is never allowed by a rule that names a command, a path or a host.
Nothing here reads a file's content or has default rules. The shell's grammar is loaded with the first command.

| File | Subject |
|---|---|
| `rules.py` | a rule, the index of rules, the verdict, rules for "always" |
| `rule_parser.py`, `rule_text.py` | rules from a policy file, and their mistakes; a rule as one line of text |
| `facts.py`, `paths.py` | the effects of an action; patterns, and where paths lead |
| `segments.py`, `shell.py`, `words.py` | a shell line, taken apart into commands |
| `commands.py` | its commands as they are written, for checks that prevent accidents |
| `wrappers.py`, `hazards.py`, `repositories.py` | programs that run others, hazardous words, foreign repositories |
| `reading.py` | whether an action provably only reads |
| `programs.toml`, `programs.py` | the table of known programs, see docs/policy-programs.md |
"""
