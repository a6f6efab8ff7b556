"""`amplifier session`: what was said and done before."""

from __future__ import annotations

from typing import Final

import click

from amplifier_app_cli.command_tree import Entry, LazyGroup, hidden

_COMMANDS: Final = {
    name: Entry(f"{__name__}.{target}", summary)
    for name, target, summary in (
        ("list", "list:list_sessions", "List sessions, the most recently active first."),
        ("show", "show:show", "Show one session: what it used, what it is made of, what it started."),
        ("fork", "edit:fork", "Copy a session up to a turn or an event."),
        ("export", "export:export", "Write a session to a file or to standard output."),
        ("remove", "delete:remove", "Delete a session, or all that have been inactive for long."),
        ("restore", "restore:restore", "Restore files that a session has changed."),
    )
}
_ALIASES: Final = {
    **hidden(__name__, cleanup="delete:cleanup", delete="delete:remove", rename="edit:rename", repair="edit:repair"),
    "resume": Entry("amplifier_app_cli.commands.resume:resume"),
}


@click.group(cls=LazyGroup, entries=_COMMANDS, aliases=_ALIASES)
def session() -> None:
    """List, show, fork, export, restore and remove sessions.

    \b
    Examples:
      amplifier session list
      amplifier session show 3f2a
      amplifier session fork 3f2a --at-turn 2
      amplifier session restore 3f2a --list

    A session is named by its id, the beginning of its id, its name, or the path of its folder. `amplifier session
    rename SESSION NAME` gives it another name, as `/rename` in a chat does.
    """
