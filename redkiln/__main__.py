"""`python -m redkiln` is the command `redkiln`."""

from redkiln.cli import main

if __name__ == "__main__":
    main()
