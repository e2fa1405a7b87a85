import dataclasses
import hashlib
import hmac
import json
from email.header import decode_header, make_header

import pytest

from service.notices.messages import News, build_mail, build_request, sign
from service.notices.targets import parse_target

NEWS = News(
    "note_1", "job_1", "flowers & <b>\n2", "failed", "2026-01-01T00:00:00Z", "out of memory"
)


def build(kind):
    return build_request(NEWS, parse_target(f"{kind}+https://x/"), secret=b"k", seconds=7)


def test_a_webhook_is_signed_with_its_time_and_can_be_recognised():
    headers, body = build("webhook")
    expected = hmac.new(b"k", b"7." + body, hashlib.sha256).hexdigest()
    assert (
        headers["Redkiln-Signature"] == f"t=7,v1={expected}" == sign(body, secret=b"k", seconds=7)
    )
    document = json.loads(body)
    assert headers["Redkiln-Id"] == document["id"] == "note_1"
    assert document["type"] == "job.failed"
    assert document["job"]["reason"] == "out of memory"


@pytest.mark.parametrize(
    ("kind", "key", "text"),
    [
        ("discord", "content", "Job flowers & <b> 2 failed (job_1): out of memory"),
        ("slack", "text", "Job flowers &amp; &lt;b&gt; 2 failed (job_1): out of memory"),
    ],
)
def test_chats_get_one_line_without_markup(kind, key, text):
    headers, body = build(kind)
    assert json.loads(body)[key] == text
    assert "Redkiln-Signature" not in headers


def test_nobody_is_mentioned_in_discord():
    assert json.loads(build("discord")[1])["allowed_mentions"] == {"parse": []}


def test_ntfy_gets_text_with_a_title_and_a_priority():
    headers, body = build("ntfy")
    assert (headers["Title"], headers["Priority"]) == ("Job flowers & <b> 2 failed", "high")
    assert body.decode() == NEWS.text


def test_ntfy_gets_titles_of_other_scripts_as_mail_encodes_them():
    news = dataclasses.replace(NEWS, job_name="旅行照片")
    title = build_request(news, parse_target("ntfy+https://h/t"), secret=b"", seconds=1)[0]["Title"]
    assert str(make_header(decode_header(title))) == news.title
    assert title.isascii()


def test_a_mail_has_a_subject_of_one_line():
    mail = build_mail(NEWS, parse_target("mail+smtp://m/?from=a@x&to=b@x&to=c@x"))
    assert (mail["Subject"], mail["To"]) == ("Job flowers & <b> 2 failed", "b@x, c@x")
    assert "out of memory" in mail.get_content()
