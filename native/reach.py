"""Whether an index of packages can be reached, asked once before pip asks for every package.

    python -m native.reach URL

Ends with 0 if something answers there, whatever it says: pip tells better what is wrong with an
answer. Standard library only, for it runs before anything is installed.
"""

import ssl
import sys
import urllib.error
import urllib.request

TIMEOUT_SECONDS = 10.0
NOT_REACHED = 1


def is_reachable(url: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> bool:
    """Whether a server is there, by the proxies of the environment; folders are pip's to find."""
    if not url.startswith(("http://", "https://")):
        return True
    try:
        with urllib.request.urlopen(url, timeout=timeout_seconds):  # noqa: S310  the user's own URL
            return True
    except urllib.error.HTTPError:
        return True
    except urllib.error.URLError as error:
        return isinstance(error.reason, ssl.SSLError)  # pip may know another certificate
    except OSError:  # connected, and then nothing came
        return False


if __name__ == "__main__":
    sys.exit(0 if is_reachable(sys.argv[1]) else NOT_REACHED)
