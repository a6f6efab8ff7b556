"""Run commands in a sandbox: they see the system and the project, write only to the project, and have no network.

`sandbox_of(coordinator, config)` returns a module's sandbox. `Sandbox.prepare(...).confine(spec)` returns a
`CommandSpec` that the runner of `amplifier_kit.guard.processes` runs inside; `Sandbox.wrap` returns the command line
of a process that the caller starts with its own pipes. Without bubblewrap, commands run unconfined with a warning, or
are refused, as the plan says.
"""
