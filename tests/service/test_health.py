from redkiln.version import __version__


def test_health_says_which_version_answers(client):
    assert client.get("/healthz").json() == {"status": "ok", "version": __version__}
