"""`python -m amplifier_digital_twin.services CONFIG.json`: see `process.py`."""

import sys

from amplifier_digital_twin.services.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
