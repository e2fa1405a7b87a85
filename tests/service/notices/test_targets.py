import pytest

from service.notices.targets import parse_target
from service.settings import Settings


@pytest.mark.parametrize(
    ("url", "kind", "host", "port"),
    [
        ("https://example.org/hook?x=1", "webhook", "example.org", 443),
        ("webhook+http://example.org:81/", "webhook", "example.org", 81),
        ("ntfy+https://ntfy.sh/secret", "ntfy", "ntfy.sh", 443),
        ("DISCORD+https://discord.com/api/x", "discord", "discord.com", 443),
        ("slack+https://hooks.slack.com/x", "slack", "hooks.slack.com", 443),
        ("mail+smtp://u%40x:p@mail.org/?from=a@x&to=b@x&to=c@x", "mail", "mail.org", 587),
        ("mail+smtps://mail.org/?from=a@x&to=b@x", "mail", "mail.org", 465),
    ],
)
def test_a_url_names_its_kind_and_host(url, kind, host, port):
    target = parse_target(url)
    assert (target.kind, target.host, target.port) == (kind, host, port)


def test_a_mail_has_its_addresses_and_login():
    target = parse_target("mail+smtp://u%40x:p%3A@mail.org/?from=a@x&to=b@x&to=c@x")
    assert (target.sender, target.recipients) == ("a@x", ("b@x", "c@x"))
    assert target.login == ("u@x", "p:")


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://x", "teams+https://x", "https://", "mail+smtp://x/?to=a"]
)
def test_other_urls_are_refused_at_the_start_of_the_service(url):
    with pytest.raises(ValueError, match=r"ntfy\+https"):
        parse_target(url)
    if url:
        with pytest.raises(ValueError, match=r"ntfy\+https"):
            Settings(notice_urls=url)


def test_the_label_of_a_target_has_no_secret():
    target = parse_target("ntfy+https://user:hidden@ntfy.sh/topic-secret")
    assert target.label.startswith("ntfy://ntfy.sh#")
    assert "secret" not in repr(target) + target.label
    assert "hidden" not in repr(target) + target.label


def test_the_setting_lists_urls_and_ignores_repetitions():
    settings = Settings(notice_urls="https://a/ , ntfy+https://b/t\nhttps://a/")
    assert [target.host for target in settings.notice_targets] == ["a", "b"]
