"""Entry point of `amplifier`: the tree of commands, and what holds for all of them."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from amplifier_app_cli import __version__, exits
from amplifier_app_cli.app import App
from amplifier_app_cli.command_tree import Entry, Program, hidden
from amplifier_app_cli.options import global_options
from amplifier_app_cli.ui.streams import fill_standard_streams, never_fail_to_encode, speak_utf8

_PACKAGE: Final = "amplifier_app_cli.commands"
_COMMANDS: Final = {
    name: Entry(f"{_PACKAGE}.{target}", summary)
    for name, target, summary in (
        ("agents", "agents:agents", "List and show the agents that a session can delegate work to."),
        ("approval", "approval:approval", "Answer pending approval requests."),
        ("bundle", "bundle:bundle", "List, choose, add and check bundles."),
        ("completion", "completion:completion", "Print the script that lets a shell complete commands."),
        ("continue", "resume:continue_", "Resume the newest session of this project."),
        ("doctor", "doctor:doctor", "Check everything that a run needs."),
        ("init", "init:init", "Set the program up: provider, key, model, bundle."),
        ("keys", "keys:keys", "Store, list and remove API keys."),
        ("logs", "logs:logs", "Print the log of a session."),
        ("mcp", "mcp:mcp", "List, add, test and remove MCP servers."),
        ("migrate", "migrate:migrate", "Take over a home of the published program."),
        ("module", "module:module", "List, add and check modules, and try their tools."),
        ("notify", "notify:notify", "Be told when a turn has ended: on the desktop, or on your phone."),
        ("policy", "policy:policy", "List, add, explain and test the rules for what a session may do."),
        ("provider", "provider:provider", "Choose, configure and try providers of models."),
        ("resume", "resume:resume", "Resume a session of your choice."),
        ("routing", "routing:routing", "List, choose and create matrices: which models fit which role."),
        ("run", "run:run", "Run one prompt and print the answer."),
        ("session", "session:session", "List, show, fork, export, restore and remove sessions."),
        ("settings", "settings:settings", "Show and change settings."),
        ("trust", "trust:trust", "Trust what the files of a project name."),
        ("update", "update:update", "Fetch newer versions of the bundles and modules in use."),
        ("usage", "usage:usage", "Show tokens and cost by day, project, model, agent or session."),
        ("version", "version:version", "Print the version of the program and of its parts."),
    )
}
_ALIASES: Final = hidden(
    _PACKAGE,
    allowed_dirs="dirs:allowed_dirs",
    denied_dirs="dirs:denied_dirs",
    reset="reset:reset",
    source="source:source",
    tool="tool:tool",
)


@global_options
@click.group(cls=Program, entries=_COMMANDS, aliases=_ALIASES, invoke_without_command=True)
@click.version_option(__version__, prog_name="amplifier", message="%(prog)s %(version)s")
@click.option("-c", "--continue", "_continue", is_flag=True, expose_value=False, help="The same as `continue`.")
@click.option("-r", "--resume", "_resume", is_flag=True, expose_value=False, help="The same as `resume`.")
@click.option("--install-completion", metavar="[SHELL]", is_flag=False, flag_value="", help="Install shell completion.")
@click.pass_context
def main(context: click.Context, install_completion: str | None) -> None:
    """Run AI agents that show what they do. Without a command: chat.

    \b
    Examples:
      amplifier
      amplifier "Why does tests/test_login.py fail?"
      amplifier -c "Fix it"
      git diff | amplifier run "Review this"
      amplifier usage --by model

    Several words in quotes are a prompt. These options are accepted before and after every command; options of `run`,
    such as --bundle and --model, also without a command.
    """
    refuse_other_systems()
    speak_utf8()
    fill_standard_streams()
    never_fail_to_encode()
    context.ensure_object(App)
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
