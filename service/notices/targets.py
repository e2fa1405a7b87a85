"""Where messages go: each target is one URL of the settings, whose scheme names its kind."""

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Literal, cast
from urllib.parse import parse_qs, unquote, urlsplit

Kind = Literal["webhook", "ntfy", "discord", "slack", "mail"]
_URL = re.compile(r"(?:(webhook|ntfy|discord|slack)\+)?(https?://.+)", re.I)
_MAIL_SCHEMES = {"mail+smtp": 587, "mail+smtps": 465}
FORMS = (
    "https://HOST/PATH (a webhook), ntfy+https://HOST/TOPIC, discord+https://..., "
    "slack+https://... or mail+smtp://USER:PASSWORD@HOST/?from=A&to=B"
)


@dataclass(frozen=True)
class Target:
    """One target.

    Attributes:
        url: Address to send to, without the kind; of mail, the server's with its scheme.
        recipients: Addresses of a mail.
        sender: Address that a mail comes from.
    """

    kind: Kind
    url: str = field(repr=False)
    recipients: tuple[str, ...] = ()
    sender: str = ""

    @property
    def host(self) -> str:
        """The host to connect to."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """The port to connect to."""
        parts = urlsplit(self.url)
        return parts.port or _MAIL_SCHEMES.get(parts.scheme, 443 if parts.scheme == "https" else 80)

    @property
    def label(self) -> str:
        """Name of the target for logs: kind, host and a digest, because a path may be a secret."""
        return f"{self.kind}://{self.host}#{sha256(self.url.encode()).hexdigest()[:8]}"

    @property
    def login(self) -> tuple[str, str] | None:
        """User and password for a mail server."""
        parts = urlsplit(self.url)
        if parts.username is None:
            return None
        return unquote(parts.username), unquote(parts.password or "")


def parse_target(text: str) -> Target:
    """Read one URL of the settings.

    Raises:
        ValueError: The URL has no form that is known; the text says which forms are.
    """
    match = _URL.fullmatch(text)
    if match is not None and urlsplit(match[2]).hostname:
        return Target(cast("Kind", (match[1] or "webhook").lower()), match[2])
    parts = urlsplit(text)
    if parts.scheme in _MAIL_SCHEMES and parts.hostname:
        query = parse_qs(parts.query)
        recipients, senders = query.get("to", []), query.get("from", [])
        if recipients and len(senders) == 1:
            return Target("mail", text, tuple(recipients), senders[0])
        raise ValueError("a mail needs one `from` and at least one `to`, as in " + FORMS)
    raise ValueError(f"a notice URL has one of the forms {FORMS}")
