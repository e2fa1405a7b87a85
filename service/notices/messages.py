"""What a message says, in the form of each kind of target."""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from email.header import Header
from email.message import EmailMessage
from typing import Any

from service.notices.targets import Target

SIGNATURE = "Redkiln-Signature"
TEST = "test"
_WORDS = {
    "succeeded": "succeeded",
    "failed": "failed",
    "cancelled": "was cancelled",
    TEST: "would be announced like this (a test)",
}
_URGENT = {"failed": "high"}


@dataclass(frozen=True)
class News:
    """What has happened.

    Attributes:
        id: Id of the message, the same in every try, so that a receiver can ignore repetitions.
        event: Status that the job ended with, or `test`.
        reason: Why it ended, if it did not succeed.
        at: Time of the event, ISO 8601.
    """

    id: str
    job_id: str
    job_name: str
    event: str
    at: str
    reason: str | None = None

    @property
    def title(self) -> str:
        """The news in one line."""
        return f"Job {' '.join(self.job_name.split())} {_WORDS[self.event]}"

    @property
    def text(self) -> str:
        """The news in one paragraph."""
        return f"{self.title} ({self.job_id})" + (f": {self.reason}" if self.reason else "")


def build_request(
    news: News, target: Target, *, secret: bytes, seconds: int
) -> tuple[dict[str, str], bytes]:
    """Return headers and body of the POST that tells a target the news.

    A signature has the present time, in seconds since 1970, so that a receiver can refuse old
    messages.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "redkiln"}
    if target.kind == "ntfy":
        headers |= {"Content-Type": "text/plain; charset=utf-8", "Tags": news.event}
        headers |= {"Title": Header(news.title).encode(maxlinelen=0)}
        headers |= {"Priority": _URGENT.get(news.event, "default")}
        return headers, news.text.encode()
    body = json.dumps(_DOCUMENTS[target.kind](news)).encode()
    if target.kind == "webhook":
        headers |= {"Redkiln-Id": news.id, SIGNATURE: sign(body, secret=secret, seconds=seconds)}
    return headers, body


def build_mail(news: News, target: Target) -> EmailMessage:
    """Return the mail that tells a target the news."""
    mail = EmailMessage()
    mail["Subject"] = news.title
    mail["From"] = target.sender
    mail["To"] = ", ".join(target.recipients)
    mail["Message-ID"] = f"<{news.id}@redkiln>"
    mail.set_content(news.text)
    return mail


def sign(body: bytes, *, secret: bytes, seconds: int) -> str:
    """Return the signature of a webhook's body: `t=<seconds>,v1=<HMAC-SHA256 of "t.body">`."""
    signed = f"{seconds}.".encode() + body
    return f"t={seconds},v1={hmac.new(secret, signed, hashlib.sha256).hexdigest()}"


def _document(news: News) -> dict[str, Any]:
    job = {"id": news.job_id, "name": news.job_name, "status": news.event, "reason": news.reason}
    return {"id": news.id, "type": f"job.{news.event}", "at": news.at, "job": job}


def _escape_slack(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


_DOCUMENTS: dict[str, Callable[[News], dict[str, Any]]] = {
    "webhook": _document,
    "discord": lambda news: {"content": news.text[:2000], "allowed_mentions": {"parse": []}},
    "slack": lambda news: {"text": _escape_slack(news.text)},
}
