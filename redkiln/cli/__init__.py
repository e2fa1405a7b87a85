"""The `redkiln` command."""


def main() -> None:
    """Run the command with the arguments of this process."""
    from redkiln.cli.app import build_app

    build_app()()
