"""Run the program as `python -m amplifier_app_cli`."""

from amplifier_app_cli.main import main

main(prog_name="amplifier")
