"""Runs the command `redkiln` for `python -m redkiln`."""

from redkiln.cli import main

if __name__ == "__main__":
    main()
