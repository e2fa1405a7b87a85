import json
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from redkiln.cli.app import build_app


@dataclass
class Done:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def redkiln(fake, monkeypatch):
    """Runs the command against the fake service, as a script would (no terminal)."""
    monkeypatch.setattr("redkiln.client.connection.RetryPolicy.base_seconds", 0.001)
    monkeypatch.setattr("redkiln.client.watching.RECONNECT_SECONDS", (0.01,))
    app = build_app()

    def run(*arguments, stdin=None):
        result = CliRunner().invoke(app, [str(item) for item in arguments], input=stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    return run
