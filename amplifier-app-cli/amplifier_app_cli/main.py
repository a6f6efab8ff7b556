"""Entry point of `amplifier`: the tree of commands, and what holds for all of them."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from amplifier_app_cli import __version__, exits
from amplifier_app_cli.app import App
from amplifier_app_cli.command_tree import Entry, Program
from amplifier_app_cli.ui.streams import fill_standard_streams, never_fail_to_encode, speak_utf8

_COMMANDS: Final = {
    name: Entry(f"amplifier_app_cli.commands.{target}", summary)
    for name, target, summary in (
        ("agents", "agents:agents", "Look at the agents that a session can hand work to."),
        ("allowed-dirs", "dirs:allowed_dirs", "Manage the folders that the file tool may write to."),
        ("approval", "approval:approval", "Answer pending approval requests."),
        ("bundle", "bundle:bundle", "List, choose, explain, lock and update bundles."),
        ("completion", "completion:completion", "Print the script that lets a shell complete commands."),
        ("continue", "resume:continue_", "Resume the newest session of this project."),
        ("denied-dirs", "dirs:denied_dirs", "Manage the folders that the file tool must not write to."),
        ("doctor", "doctor:doctor", "Check everything that a run needs."),
        ("init", "init:init", "Set the program up: provider, key, model, bundle."),
        ("keys", "keys:keys", "Store, list and remove API keys."),
        ("logs", "logs:logs", "Print the log of a session."),
        ("module", "module:module", "List, add, check and update modules."),
        ("policy", "policy:policy", "List, explain and test the rules for what a session may do."),
        ("provider", "provider:provider", "Choose, configure and try providers of models."),
        ("reset", "reset:reset", "Delete what the program keeps in its home."),
        ("resume", "resume:resume", "Resume a session of your choice."),
        ("run", "run:run", "Run one prompt and print the answer."),
        (
            "session",
            "session:session",
            "List, show, fork, repair and delete sessions; restore files that they changed.",
        ),
        ("settings", "settings:settings", "Show and change settings."),
        ("source", "source:source", "Override where modules and bundles come from."),
        ("tool", "tool:tool", "List the tools of a bundle, and run one by hand."),
        ("trust", "trust:trust", "Trust what the files of a project name."),
        ("update", "update:update", "Fetch newer versions of the bundles and modules in use."),
        ("version", "version:version", "Print the version of the program and of its parts."),
    )
}


@click.group(cls=Program, entries=_COMMANDS, invoke_without_command=True)
@click.version_option(__version__, prog_name="amplifier", message="%(prog)s %(version)s")
@click.option("-q", "--quiet", is_flag=True, help="Print results only.")
@click.option("--no-input", is_flag=True, help="Never ask: what needs approval is denied or becomes pending.")
@click.option("-v", "--verbose", is_flag=True, help="Show more details.")
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), help="When to use colours; overrides NO_COLOR."
)
@click.option(
    "--safe-mode",
    is_flag=True,
    help="Ignore your settings, modules, hooks and tools, to see whether they are at fault.",
)
@click.option("--install-completion", metavar="[SHELL]", is_flag=False, flag_value="", help="Install shell completion.")
@click.pass_context
def main(
    context: click.Context,
    quiet: bool,
    no_input: bool,
    verbose: bool,
    color: str | None,
    safe_mode: bool,
    install_completion: str | None,
) -> None:
    """Run AI agents that say what they do. Without a command: chat.

    \b
    Examples:
      amplifier
      amplifier run "What is in this folder?"
      amplifier session list
      amplifier logs
    """
    refuse_other_systems()
    speak_utf8()
    fill_standard_streams()
    never_fail_to_encode()
    if color is not None:
        from amplifier_app_cli.ui.colour import choose_colour

        choose_colour(color)
    context.obj = App(quiet, no_input, verbose, is_safe=safe_mode)
    if install_completion is not None:
        _install_completion(install_completion or None)
    elif context.invoked_subcommand is None:
        _chat(context)


def refuse_other_systems(name: str = os.name) -> None:
    """Exit on a platform where files cannot be locked and process groups cannot be ended."""
    if name != "posix":
        from amplifier_app_cli.ui.say import complain

        needs = "Amplifier needs POSIX signals and file locks (Linux or macOS; on Windows, run it in WSL)"
        sys.exit(complain(exits.FAILURE, f"unsupported platform: {needs}"))


def _install_completion(shell: str | None) -> None:
    from amplifier_app_cli.commands.completion import install_completion

    click.echo(f"completion is in {install_completion(shell)}: start a new shell to use it", err=True)


def _chat(context: click.Context) -> None:
    app: App = context.obj
    if not app.can_chat:
        raise click.UsageError("a chat needs a terminal: for one prompt there is `amplifier run PROMPT`", context)
    from amplifier_app_cli.chat import chat
    from amplifier_app_cli.event_loop import run_to_exit
    from amplifier_app_cli.session_request import SessionRequest

    run_to_exit(lambda: chat(app, SessionRequest()))
