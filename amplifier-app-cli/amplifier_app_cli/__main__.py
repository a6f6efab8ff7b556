"""Start the program: as the command `amplifier`, or as `python -m amplifier_app_cli`."""

import gc

# What is imported stays; scanning it for garbage is in vain. The program collects again when it knows its command.
gc.disable()

from amplifier_app_cli.main import main  # noqa: E402


def start() -> None:
    """Run the program."""
    main(prog_name="amplifier")


if __name__ == "__main__":
    start()
