import ssl

import pytest

from redkiln.client.connection import Connection
from redkiln.settings import ClientSettings
from redkiln.tls import tls_for
from worker.agent.client import ServiceClient


def build_connection(url):
    return Connection(ClientSettings(url))


def build_service_client(url):
    return ServiceClient(url, load_key=lambda: None)


clients = pytest.mark.parametrize("build", [build_connection, build_service_client])


def context_of(client):
    return client._http._transport._pool._ssl_context


@clients
@pytest.mark.parametrize("url", ["https://gpu-box:8321", "HTTPS://gpu-box"])
def test_a_client_of_an_https_address_only_trusts_the_usual_certificates(build, url):
    client = build(url)
    context = context_of(client)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.get_ca_certs()
    client.close()


@clients
def test_a_client_of_an_http_address_loads_no_certificates(build, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("certificates were loaded")

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", refuse)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", refuse)
    build("http://127.0.0.1:8321").close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:8321", "HTTP://gpu-box"])
def test_an_http_client_cannot_send_over_tls(url):
    context = tls_for(url)
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.get_ca_certs() == []
