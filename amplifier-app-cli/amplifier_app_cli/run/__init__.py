"""One prompt from the command line: how it is run, and how its result is printed."""
