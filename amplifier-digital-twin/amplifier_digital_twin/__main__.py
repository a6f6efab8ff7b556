"""Run as `python -m amplifier_digital_twin`."""

from amplifier_digital_twin.program import run

if __name__ == "__main__":
    run()
