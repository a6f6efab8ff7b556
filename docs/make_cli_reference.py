"""Write the references of our programs from the programs themselves. No command is run.

    python docs/make_cli_reference.py            rewrite `docs/cli.md` and `docs/digital-twin-cli.md`
    python docs/make_cli_reference.py --check    exit with 1 when a page is not what its program says

A page follows the tree of commands: what each is for, its usage, its examples, its options.
"""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click

from amplifier_app_cli.main import main as amplifier
from amplifier_digital_twin.cli import main as digital_twin

DOCS = Path(__file__).resolve().parent


class Reference(NamedTuple):
    """A program, and the page that it is written on."""

    program: click.Group
    name: str
    page: Path
    introduction: str


AMPLIFIER = Reference(
    amplifier,
    "amplifier",
    DOCS / "cli.md",
    """\
# Commands

What `amplifier` can be asked to do, as the program itself tells it: `amplifier --help`, and `--help` behind every
command. The [guide](guide.md) describes how the commands belong together, [errors](errors.md) what their errors mean.

The other names of the published program are accepted as well. They are not listed, and neither are six rare commands,
which have their `--help`: `bundle unset`, `policy check`, `session rename`, `session repair`, `settings dirs` and
`settings reset`.

This page is written by `make reference`. Do not edit it.
""",
)
DIGITAL_TWIN = Reference(
    digital_twin,
    "amplifier-digital-twin",
    DOCS / "digital-twin-cli.md",
    """\
# Commands of the digital twin

What `amplifier-digital-twin` can be asked to do, as the program itself tells it: `amplifier-digital-twin --help`, and
`--help` behind every command. [The digital twin](digital-twin.md) tells what it is for and how the commands belong
together, [errors](errors.md#the-digital-twin) what their complaints mean.

This page is written by `make reference`. Do not edit it.

## Exit codes

| Code | Meaning |
| --- | --- |
| 0 | done; for `check` it passes, for `check-readiness` and `status` it is ready, for `exec` the command ended with 0 |
| 1 | no error, but the answer is no: see below |
| 2 | an error, told as JSON with its [code](errors.md#the-digital-twin); `check` could not find out |
| 129 | ended by SIGHUP; `launch` and `check` destroy their universe first |
| 130 | ended by Ctrl-C, likewise |
| 143 | ended by SIGTERM, likewise |

The answer is no (1) when a profile fails (`check`), when a universe is not ready (`check-readiness`, `status`), when
there is no way to launch a profile here (`validate`) or to launch anything (`doctor`), when something of yours could
not be removed (`prune`), when the command inside did not end with 0 or ran out of time (`exec`), and when whoever reads
standard output has gone.

`exec --stream` ends with the command's own code instead, 128 and the signal when one ended it, and with these:

| Code | Meaning |
| --- | --- |
| 124 | the command ran out of the time of `--timeout` and was ended |
| 125 | the command could not be run at all; standard error says why |
| 126 | there is such a program, but it cannot be run |
| 127 | there is no such program |

## The commands
""",
)
REFERENCES = (AMPLIFIER, DIGITAL_TWIN)
#: What stands for the line breaks that click is to keep.
_KEEP = "\b"
#: Text outside of code that Markdown would take for something else.
_SPECIAL = re.compile(r"(`[^`]*`)|([*_<\[\]])")


def commands(reference: Reference) -> Iterator[click.Context]:
    """Yield a context for every command that is not hidden, each before those below it."""
    yield from _walk(reference.program, reference.name, None)


def _walk(command: click.Command, name: str, parent: click.Context | None) -> Iterator[click.Context]:
    context = click.Context(command, info_name=name, parent=parent, terminal_width=100, max_content_width=100)
    yield context
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None and not found.hidden:
                yield from _walk(found, child, context)


def text(reference: Reference) -> str:
    """Return the page."""
    contexts = list(commands(reference))
    parts = [reference.introduction, _contents(contexts), *(_section(context) for context in contexts)]
    return "\n".join(parts)


def _contents(contexts: list[click.Context]) -> str:
    """Return a list of the top-level commands, each with those below it."""
    lines = []
    for context in contexts:
        if len(_path(context)) != 2:
            continue
        below = [other for other in contexts if other.parent is context]
        links = " · ".join(_link(other, str(other.info_name)) for other in below)
        lines.append(f"- {_link(context, str(context.info_name))}{f': {links}' if links else ''}")
    return "\n".join(lines) + "\n"


def _path(context: click.Context) -> list[str]:
    return context.command_path.split()


def _link(context: click.Context, text: str) -> str:
    return f"[{text}](#{context.command_path.replace(' ', '-')})"


def _section(context: click.Context) -> str:
    command = context.command
    lines = [f"{'#' * min(len(_path(context)) + 1, 4)} {context.command_path}", ""]
    usage = f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    prose, kept = _help(command)
    lines += [*prose[:1], "```text", usage, "```", "", *prose[1:]]
    for title, block in kept:
        lines += [f"{title}:", "", "```text", block, "```", ""]
    lines += _options(context)
    if isinstance(command, click.Group):
        lines += _children(command, context)
    return "\n".join(lines)


def _help(command: click.Command) -> tuple[list[str], list[tuple[str, str]]]:
    """Return what a command says of itself: its paragraphs, each with the empty line after it, and kept blocks."""
    prose: list[str] = []
    kept: list[tuple[str, str]] = []
    text = inspect.cleandoc(command.help or "").partition("\f")[0]
    for paragraph in re.split(r"\n\s*\n", text):
        lines = paragraph.splitlines()
        if lines and lines[0].strip() == _KEEP:
            if not lines[1].endswith(":"):
                prose.append(_escaped(" ".join(lines[1:])) + "\n")
                continue
            kept.append((lines[1].rstrip(":"), inspect.cleandoc("\n".join(["", *lines[2:]]))))
        elif lines:
            prose.append(_escaped(" ".join(lines)) + "\n")
    return prose, kept


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda found: found[1] or f"\\{found[2]}", text)


def _options(context: click.Context) -> list[str]:
    """Return the table of options; `--help` is said once, at the top of the page."""
    records = [
        record
        for parameter in context.command.get_params(context)
        if isinstance(parameter, click.Option) and "--help" not in parameter.opts
        if (record := parameter.get_help_record(context)) is not None
    ]
    if not records:
        return []
    rows = [f"| `{_cell(option)}` | {_cell(_escaped(meaning))} |" for option, meaning in records]
    return ["| Option | Meaning |", "| --- | --- |", *rows, ""]


def _children(group: click.Group, context: click.Context) -> list[str]:
    rows = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        entry = getattr(group, "entries", {}).get(name)
        summary = entry.summary if entry is not None else command.get_short_help_str(limit=200)
        link = f"[`{name}`](#{f'{context.command_path} {name}'.replace(' ', '-')})"
        rows.append(f"| {link} | {_cell(_escaped(summary))} |")
    return ["| Command | What it is for |", "| --- | --- |", *rows, ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the pages, or check them, and return the exit status."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = {reference.page: fresh for reference in REFERENCES if (fresh := text(reference)) != _known(reference.page)}
    for page, fresh in stale.items():
        if arguments:
            print(f"docs/{page.name} is not what the program says: run `make reference`", file=sys.stderr)
        else:
            page.write_text(fresh, encoding="utf-8")
            print(f"docs/{page.name} is written")
    return 1 if arguments and stale else 0


def _known(page: Path) -> str:
    return page.read_text(encoding="utf-8") if page.exists() else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
