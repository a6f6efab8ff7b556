"""The program `amplifier-digital-twin`: its commands, its output, its exit codes."""
