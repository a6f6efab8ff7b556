"""What a universe can reach: one host process that serves packages, repositories and rewritten hosts on unix sockets.

Start at `config.py` (what the process is told) and `process.py` (its life); `index.py`, `git.py` and `proxy.py` are the
three services, `guest.py` is what must be inside the container so that programs there use them.
"""
