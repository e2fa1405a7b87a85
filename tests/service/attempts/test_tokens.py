import stat

import pytest

from service.attempts.tokens import check_token, load_secret, make_token
from service.errors import Unauthorized

SECRET = b"s" * 32


def test_a_token_contains_its_fence_and_is_reproducible():
    token = make_token(SECRET, "att_1", fence=7)
    assert token == make_token(SECRET, "att_1", fence=7)
    assert check_token(SECRET, "att_1", token) == 7


@pytest.mark.parametrize(
    "token",
    [
        "",
        "rt_7_",
        "rt_8_" + make_token(SECRET, "att_1", fence=7).split("_")[2],
        make_token(SECRET, "att_2", fence=7),
        make_token(b"t" * 32, "att_1", fence=7),
        make_token(SECRET, "att_1", fence=7) + "\n",
        "rt_\u0667_" + "0" * 64,
    ],
)
def test_a_token_of_another_attempt_is_refused(token):
    with pytest.raises(Unauthorized):
        check_token(SECRET, "att_1", token)


def test_the_secret_is_created_once_and_readable_only_by_its_owner(tmp_path):
    path = tmp_path / "keys" / "secret"
    secret = load_secret(path)
    assert len(secret) == 32
    assert load_secret(path) == secret
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
