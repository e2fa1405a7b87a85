"""The certificates that our HTTP clients trust, loaded only where an address needs them."""

import ssl


def tls_for(url: str) -> ssl.SSLContext | bool:
    """Return what httpx verifies the TLS of an address with, its `verify` argument.

    Loading the certificates takes 0.05 to 0.15 s of every command. A client of an `http://` address
    needs none: it gets an empty context, with which every TLS handshake fails, so that nothing is
    sent over TLS unverified by accident. An `https://` address gets httpx's certificates.

    Args:
        url: Address that the client is built for. The client must not follow a redirect from
            http to https.
    """
    if url.lower().startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return True
