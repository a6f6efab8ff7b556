"""`amplifier version`: what is installed, for people and for reports of trouble."""

from __future__ import annotations

from typing import Any, Final

import click

from amplifier_app_cli import __version__
from amplifier_app_cli.app import current_app
from amplifier_app_cli.failures import report_errors
from amplifier_app_cli.ui.records import print_json

_PROGRAM: Final = "amplifier"
#: The parts that the program cannot run without.
_PARTS: Final = ("amplifier-core", "amplifier-kit", "amplifier-foundation", "amplifier-app-cli")


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@click.option("-v", "--verbose", "is_verbose", is_flag=True, help="Print the versions of all parts too.")
@report_errors
def version(as_json: bool, is_verbose: bool) -> None:
    """Print the version of the program and of its parts.

    \b
    Examples:
      amplifier version
      amplifier version -v
      amplifier version --json
    """
    app = current_app()
    if not (as_json or is_verbose or app.is_verbose):
        click.echo(f"{_PROGRAM} {__version__}")
        return
    facts = {**_facts(), "home": str(app.home.path)}
    if as_json:
        print_json(facts)
        return
    packages = facts.pop("packages")
    for name, value in {**facts, **packages}.items():
        click.echo(f"{name} {value if value is not None else 'not installed'}")


def first_party_versions() -> dict[str, str | None]:
    """Return the version of every package of the product, None for one that should be there and is not.

    The distribution `amplifier` says which ones they are; without it, only the parts that every program needs count.
    """
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    versions: dict[str, str | None] = {}
    for name in _first_party():
        try:
            versions[name] = version_of(name)
        except PackageNotFoundError:
            versions[name] = None
    return versions


def _first_party() -> list[str]:
    import re
    from importlib.metadata import PackageNotFoundError, requires

    try:
        required = requires(_PROGRAM) or []
    except PackageNotFoundError:
        return list(_PARTS)
    always = [requirement for requirement in required if "extra ==" not in requirement]
    names = [re.split(r"[\s;<>=!~\[(]", requirement, maxsplit=1)[0] for requirement in always]
    own = [name for name in names if name.startswith(f"{_PROGRAM}-")]
    return list(dict.fromkeys([_PROGRAM, *_PARTS, *sorted(own)]))


def _facts() -> dict[str, Any]:
    import platform
    import sys

    return {
        _PROGRAM: __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "packages": first_party_versions(),
    }
