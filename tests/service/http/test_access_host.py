import pytest
from starlette.datastructures import Headers

from service.http.access import find_fault
from service.settings import Settings


@pytest.mark.parametrize(
    ("host", "passes"),
    [
        ("127.0.0.1:8321", True),
        ("localhost:9000", True),
        ("[::1]:8321", True),
        ("service:8321", True),
        ("0.0.0.0:8321", False),
        ("evil.example:8321", False),
        ("service.evil.example:8321", False),
    ],
)
def test_a_container_accepts_its_published_address_and_its_name(host, passes):
    settings = Settings(bind="0.0.0.0:8321", public_bind="127.0.0.1:8321", host_names=["service"])
    assert (find_fault("GET", Headers({"host": host}), settings) is None) is passes


def test_names_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv("REDKILN_HOST_NAMES", "service, Redkiln")
    assert Settings().host_names == ["service", "redkiln"]
