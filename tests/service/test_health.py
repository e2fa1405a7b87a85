from redkiln.version import __version__


def test_health_shows_the_version(client):
    assert client.get("/healthz").json() == {"status": "ok", "version": __version__}
