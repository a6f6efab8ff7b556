"""Serve `amplifier-core validate` and `amplifier-core list-types`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click

from amplifier_core.validation import (
    ContextValidator,
    HookValidator,
    ModuleValidator,
    OrchestratorValidator,
    ProviderValidator,
    ToolValidator,
    ValidationResult,
)

__all__ = ["VALIDATORS", "cli", "main", "print_result"]

VALIDATORS: dict[str, type[ModuleValidator]] = {
    "provider": ProviderValidator,
    "tool": ToolValidator,
    "hook": HookValidator,
    "orchestrator": OrchestratorValidator,
    "context": ContextValidator,
}

_DESCRIPTIONS = {
    "provider": "Model back ends (cloud services, local servers)",
    "tool": "What an agent can do (files, shell, web)",
    "hook": "Observation and control (logging, redaction, approval)",
    "orchestrator": "How a turn runs (basic, streaming, planning)",
    "context": "What the model remembers (simple, persistent)",
}

_PASSED, _FAILED = "✓", "✗"

#: The version of this command's interface, not of the kernel.
_VERSION = "1.0.0"


@click.group()
@click.version_option(_VERSION, prog_name="amplifier-core")
def cli() -> None:
    """Check modules for the Amplifier kernel."""


@cli.command()
@click.argument("module_type", type=click.Choice(list(VALIDATORS)))
@click.argument("module_path", type=click.Path(exists=True))
@click.option("-e", "--entry-point", help="Entry point name, for example 'provider-anthropic'.")
@click.option("-q", "--quiet", is_flag=True, help="Show the summary only.")
def validate(module_type: str, module_path: str, entry_point: str | None, quiet: bool) -> None:
    """Check that a module keeps the contract of its type.

    MODULE_PATH is a package folder or a Python file. Exits with 0 when the module passed and 1 when it failed.

    \b
    Examples:
        amplifier-core validate tool ./modules/tool-x/amplifier_module_tool_x
        amplifier-core validate hook ./my_hook.py --quiet
    """
    _echo(f"Validating {module_type} module: {module_path}")
    _echo()
    result = _run(module_type, module_path, entry_point)
    if quiet:
        _echo(result.summary())
    else:
        print_result(result)
    sys.exit(0 if result.passed else 1)


@cli.command("list-types")
def list_types() -> None:
    """List the module types that can be checked."""
    _echo("Available module types:")
    _echo()
    for module_type, description in _DESCRIPTIONS.items():
        _echo(f"  {module_type:<14}{description}")


def print_result(result: ValidationResult) -> None:
    """Print the summary and one line per check."""
    _echo(result.summary())
    _echo()
    for check in result.checks:
        sign = _PASSED if check.passed else _FAILED
        severity = f"[{check.severity}]"
        _echo(f"  {sign} {severity:<11} {check.name}: {check.message}")


def main() -> None:
    """Run the command line."""
    cli()


def _run(module_type: str, module_path: str, entry_point: str | None) -> ValidationResult:
    try:
        return asyncio.run(VALIDATORS[module_type]().validate(Path(module_path), entry_point))
    except SystemExit as error:
        # Its exit status would pass for our verdict.
        raise click.ClickException(
            f"The module at {module_path} ended the program (SystemExit: {error.code}) instead of being imported and "
            "mounted. Remove the call to sys.exit() or exit()"
        ) from error


def _echo(text: str = "") -> None:
    """Print `text`, in plainer characters when the terminal's encoding lacks some of them."""
    try:
        click.echo(text)
    except UnicodeEncodeError:
        plain = text.replace(_PASSED, "+").replace(_FAILED, "x")
        click.echo(plain.encode("ascii", "backslashreplace").decode())
