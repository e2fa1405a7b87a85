"""Sends one message. Addresses inside the installation's network are refused unless allowed.

The name of a target is resolved once, and the connection goes to the address that was checked, so
that a name server cannot answer with another address in between. Redirects are not followed.
"""

import ipaddress
import smtplib
import socket
import ssl
import time

import httpx

from service.notices.messages import News, build_mail, build_request
from service.notices.targets import Target

TIMEOUT_SECONDS = 15.0


class NotSent(Exception):  # noqa: N818  the name states the fault
    """A message was not delivered; the text says why."""


def send(news: News, target: Target, *, secret: bytes, allows_private: bool) -> None:
    """Tell a target the news.

    Raises:
        NotSent: The target is refused, cannot be reached, or answers with an error.
    """
    address = find_address(target.host, target.port, allows_private=allows_private)
    try:
        if target.kind == "mail":
            _send_mail(news, target, address)
        else:
            _post(news, target, address, secret=secret)
    except (httpx.HTTPError, httpx.InvalidURL, smtplib.SMTPException, OSError) as error:
        # An httpx error may repeat the URL, which can hold a secret.
        raise NotSent(f"{target.host} cannot be reached ({type(error).__name__})") from error


def find_address(host: str, port: int, *, allows_private: bool) -> str:
    """Return the address of a host.

    Raises:
        NotSent: The name is unknown, or an address of it is not public.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotSent(f"the name {host} cannot be resolved") from error
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if not allows_private and not is_public(address):
            raise NotSent(
                f"{host} has the address {address}, which is not public; set "
                "REDKILN_NOTICE_PRIVATE=on to allow targets in your own network"
            )
    return addresses[0]


def is_public(address: str) -> bool:
    """Return whether an address belongs to the public internet."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(parsed, "ipv4_mapped", None)
    real = parsed if mapped is None else mapped
    return real.is_global and not real.is_multicast


def _post(news: News, target: Target, address: str, *, secret: bytes) -> None:
    headers, body = build_request(news, target, secret=secret, seconds=int(time.time()))
    url = httpx.URL(target.url)
    headers["Host"] = url.netloc.decode("ascii")
    with httpx.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
        answer = client.post(
            url.copy_with(host=address),
            content=body,
            headers=headers,
            extensions={"sni_hostname": target.host},
        )
    if not answer.is_success:
        raise NotSent(f"{target.host} answered {answer.status_code}")


def _send_mail(news: News, target: Target, address: str) -> None:
    context = ssl.create_default_context()
    with _connect(target, address, context) as server:
        if target.login is not None:
            server.login(*target.login)  # over TLS only; see _connect
        server.send_message(build_mail(news, target))


def _connect(target: Target, address: str, context: ssl.SSLContext) -> smtplib.SMTP:
    """Connect to a mail server whose certificate is for the target's name.

    Raises:
        NotSent: The server offers no TLS, and a password would cross the network in the open.
    """
    if target.url.startswith("mail+smtps:"):
        return _NamedSmtps(target.host, address, target.port, context)
    server = smtplib.SMTP(address, target.port, timeout=TIMEOUT_SECONDS)
    server._host = target.host  # type: ignore[attr-defined]
    server.ehlo()
    if server.has_extn("starttls"):
        server.starttls(context=context)
        server.ehlo()
    elif target.login is not None:
        server.close()
        raise NotSent(f"{target.host} offers no TLS, and the password would be readable")
    return server


class _NamedSmtps(smtplib.SMTP_SSL):
    """SMTP over TLS to an address, with the certificate of a name."""

    def __init__(self, name: str, address: str, port: int, context: ssl.SSLContext) -> None:
        self._name = name
        super().__init__(address, port, timeout=TIMEOUT_SECONDS, context=context)

    def _get_socket(self, host: str, port: int, timeout: float) -> ssl.SSLSocket:
        plain = socket.create_connection((host, port), timeout)
        return self.context.wrap_socket(plain, server_hostname=self._name)
