"""Entry point of `amplifier-digital-twin`: the tree of commands, and what holds for all of them."""

from __future__ import annotations

from typing import Final

import click

from amplifier_digital_twin import __version__
from amplifier_digital_twin.cli.tree import Entry, Program

_COMMANDS: Final = {
    name: Entry(f"amplifier_digital_twin.cli.{target}", summary)
    for name, target, summary in (
        ("check", "check:check", "Launch a profile, run its checks, keep the evidence, destroy it: pass or fail."),
        ("check-readiness", "check_readiness:check_readiness", "Say whether a universe is ready."),
        ("destroy", "destroy:destroy", "End a universe and remove every trace of it."),
        ("doctor", "doctor:doctor", "Say what can be done on this machine, and why something cannot."),
        ("exec", "exec:exec_", "Run a command in a universe."),
        ("file-pull", "file_pull:file_pull", "Copy files out of a universe."),
        ("file-push", "file_push:file_push", "Copy a file or folder into a universe."),
        ("launch", "launch:launch", "Make a universe from a profile."),
        ("list", "list:list_", "List the universes that are there."),
        ("logs", "logs:logs", "Show what happened in a universe."),
        ("prune", "prune:prune", "Remove what crashed universes left."),
        ("reset", "reset:reset", "Take a universe back to a snapshot, or to its start."),
        ("snapshot", "snapshot:snapshot", "Keep the file system of a universe under a name."),
        ("status", "status:status", "Say how a universe is."),
        ("update", "update:update", "Do what the profile says is done for an update."),
        ("validate", "validate:validate", "Check a profile and say how it would be launched."),
    )
}


@click.group(cls=Program, entries=_COMMANDS)
@click.version_option(__version__, prog_name="amplifier-digital-twin", message="%(prog)s %(version)s")
def main() -> None:
    """Prove a whole stack in an environment like a user's: isolated, real, gone in the end.

    \b
    Every command prints one JSON object on standard output; progress goes to standard error.
    Errors are {"error": {"code", "message", "remedy"}}.
    Exit codes: 0 ready or passed, 1 not ready or failed, 2 error, 130 interrupted.
    ID is an identifier, the unique start of one, or a name.

    \b
    Examples:
      amplifier-digital-twin doctor
      amplifier-digital-twin check e2e-event-logging
      amplifier-digital-twin launch my-profile.yaml --name mine
      amplifier-digital-twin exec mine -- amplifier --version
      amplifier-digital-twin destroy mine
    """
