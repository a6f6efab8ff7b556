"""Run other programs: with a deadline, bounded output, no terminal, and no process left behind.

`launch` starts processes, and runs programs that we chose ourselves (git, installers) to their end. `running_command`
runs untrusted commands, optionally in the sandbox, under a supervisor that also ends processes which leave their group.
`programs` finds programs, and makes the environment of a process.
"""
