"""Removes secrets from texts that are shown to others, such as bug reports and their logs."""

import re
from collections.abc import Iterable, Mapping

HIDDEN = "<removed>"
SECRET_NAME = re.compile(
    r"key|token|secret|passw|credential|cookie|auth|private|signature|dsn", re.IGNORECASE
)
"""Names of variables whose values are secret."""

LEAST_LENGTH = 6
"""Shorter values occur everywhere in a text and are words, not secrets."""

_START = r"(?:\b|(?<=\\[nrt]))"
"""Start of a word, also after an escaped line break in JSON."""

_PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
    re.compile(_START + r"rk_\w{8,}"),
    re.compile(_START + r"(hf|ghp|gho|ghs|glpat|xox[abp]|sk|pk|npm|pypi)[-_][A-Za-z0-9_-]{10,}"),
    re.compile(_START + r"github_pat_\w{10,}"),
    re.compile(_START + r"(AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(_START + r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]+"),
)
_BEHIND = (
    re.compile(r"(?i)((?:bearer|basic)\s+)[\w.~+/=-]{6,}"),
    re.compile(r"(?i)(\w+://[^/\s:@]*:)[^@\s/]+(?=@)"),
    re.compile(
        r"""(?ix)([\w.-]*(?:api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|credential)[\w.-]*
        ["']?\s*[:=]\s*["']?)[^\s"',;&]+"""
    ),
)


def redact(text: str, *, known: Iterable[str] = ()) -> str:
    """Return a text without known secrets and without anything that looks like a secret.

    Args:
        text: Log or report.
        known: Values that must be removed whatever they look like.
    """
    for value in sorted({value for value in known if len(value) >= LEAST_LENGTH}, key=len)[::-1]:
        text = text.replace(value, HIDDEN)
    for pattern in _PATTERNS:
        text = pattern.sub(HIDDEN, text)
    for pattern in _BEHIND:
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def find_secrets(environment: Mapping[str, str]) -> set[str]:
    """Return the values of environment variables whose names say that they are secret."""
    return {value for name, value in environment.items() if SECRET_NAME.search(name) and value}
