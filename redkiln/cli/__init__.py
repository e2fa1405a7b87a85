"""The `redkiln` command; `build_app` in `app.py` registers every command."""


def main() -> None:
    """Run the command with the arguments of this process."""
    from redkiln.imports import collector_off

    with collector_off():
        from redkiln.cli.app import build_app

    build_app()()
