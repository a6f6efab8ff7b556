"""Entry point of `amplifier-digital-twin`: today it answers `--version` and refuses everything else in plain words."""

import sys

from amplifier_digital_twin import __version__


def main() -> int:
    """Print the version; exit 2 with the reason for any other request."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        sys.stdout.write(f"amplifier-digital-twin {__version__}\n")
        return 0
    asked = " ".join(arguments) or "(nothing)"
    sys.stderr.write(
        f"amplifier-digital-twin: cannot do {asked!r}: version {__version__} cannot build environments yet.\n"
    )
    return 2
