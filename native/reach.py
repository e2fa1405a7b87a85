"""Checks whether a package index can be reached, once, before pip asks it for every package.

    python -m native.reach URL

Exits with 0 if anything answers: pip explains better what is wrong with an answer. Uses only the
standard library, because it runs before anything is installed.
"""

import ssl
import sys
import urllib.error
import urllib.request

TIMEOUT_SECONDS = 10.0
NOT_REACHED = 1


def is_reachable(url: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> bool:
    """Return whether a server answers, through the environment's proxies; True for folders."""
    if not url.startswith(("http://", "https://")):
        return True
    try:
        with urllib.request.urlopen(url, timeout=timeout_seconds):  # noqa: S310  the user's own URL
            return True
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # pip may have other certificates
    except OSError:  # connected, but received no answer
        return False


if __name__ == "__main__":
    sys.exit(0 if is_reachable(sys.argv[1]) else NOT_REACHED)
