"""Run as `python -m amplifier_digital_twin`."""

from amplifier_digital_twin.cli import main

if __name__ == "__main__":
    main()
