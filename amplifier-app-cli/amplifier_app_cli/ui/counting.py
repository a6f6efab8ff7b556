"""Say how many there are of something."""


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, `1 turn` or `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
