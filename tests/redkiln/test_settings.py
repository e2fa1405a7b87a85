import pytest

from redkiln.settings import DEFAULT_URL, is_this_machine, resolve_settings


@pytest.fixture
def checkout(tmp_path):
    keys = tmp_path / "data" / "keys"
    keys.mkdir(parents=True)
    (keys / "admin.key").write_text("rk_admin\n")
    below = tmp_path / "examples" / "deep"
    below.mkdir(parents=True)
    return below


def settle(url=None, key=None, folder=None, **environment):
    return resolve_settings(url, key, environment=environment, folder=folder)


def test_by_default_the_service_is_on_this_machine(tmp_path):
    settings = settle(folder=tmp_path)
    assert (settings.url, settings.key) == (DEFAULT_URL, None)


def test_arguments_take_precedence_over_the_environment(tmp_path):
    given = {"REDKILN_URL": "http://b", "REDKILN_KEY": "kb"}
    settings = settle("http://a:1/", "ka", tmp_path, **given)
    assert (settings.url, settings.key) == ("http://a:1", "ka")


def test_a_key_can_be_in_a_file(tmp_path):
    (tmp_path / "key").write_text("rk_file\n")
    settings = settle(folder=tmp_path, REDKILN_KEY_FILE=str(tmp_path / "key"))
    assert settings.key == "rk_file"


def test_the_admin_key_of_a_checkout_is_found_from_below_it(checkout):
    assert settle(folder=checkout).key == "rk_admin"


def test_the_admin_key_is_never_sent_to_another_machine(checkout):
    assert settle("http://192.0.2.1:8321", folder=checkout).key is None


def test_an_address_without_a_scheme_is_http(tmp_path):
    assert settle("localhost:99", folder=tmp_path).url == "http://localhost:99"


def test_other_schemes_are_refused(tmp_path):
    with pytest.raises(ValueError, match="not an http"):
        settle("ftp://x", folder=tmp_path)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("a.localhost", True),
        ("192.0.2.1", False),
    ],
)
def test_this_machines_names_and_addresses_are_recognised(host, expected):
    assert is_this_machine(host) is expected


def test_the_key_is_not_in_the_repr_of_the_settings():
    assert "secret" not in repr(settle("http://a", "secret"))
