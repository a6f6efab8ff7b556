"""Entry point of `amplifier`: today it answers `--version` and refuses everything else in plain words."""

import sys

from amplifier_app_cli import __version__


def main() -> int:
    """Print the version; exit 2 with the reason for any other request."""
    arguments = sys.argv[1:]
    if arguments in (["--version"], ["version"]):
        sys.stdout.write(f"amplifier {__version__}\n")
        return 0
    asked = " ".join(arguments) or "(nothing)"
    sys.stderr.write(
        f"amplifier: cannot do {asked!r}: version {__version__} ships the kernel, not yet the program around it.\n"
        "Embed the kernel instead: see the example in README.md (`make run` executes it).\n"
    )
    return 2
