import pytest

from service.notices.messages import News
from service.notices.sending import NotSent, find_address, is_public, send
from service.notices.targets import parse_target

NEWS = News("note_1", "job_1", "flowers", "succeeded", "2026-01-01T00:00:00Z")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("1.1.1.1", True),
        ("2606:4700::1111", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("fd00::1", False),
        ("::ffff:10.0.0.1", False),
    ],
)
def test_private_addresses_are_recognised(address, expected):
    assert is_public(address) is expected


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "::1"])
def test_a_host_in_the_own_network_is_refused_however_it_is_written(host):
    with pytest.raises(NotSent, match="REDKILN_NOTICE_PRIVATE"):
        find_address(host, 80, allows_private=False)
    assert find_address(host, 80, allows_private=True) in ("127.0.0.1", "::1")


def test_an_unknown_name_is_reported():
    with pytest.raises(NotSent, match="cannot be resolved"):
        find_address("nothing.invalid", 80, allows_private=False)


def test_an_error_does_not_repeat_the_secret_part_of_the_url():
    target = parse_target("ntfy+http://127.0.0.1:9/topic-secret")
    with pytest.raises(NotSent) as error:
        send(NEWS, target, secret=b"k", allows_private=True)
    assert "secret" not in str(error.value)
