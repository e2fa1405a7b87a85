"""Versions as numbers."""

import re


def parse_version(text: str) -> tuple[int, int]:
    """Return major and minor number: `7.2.26015-fc0010cf6a` is (7, 2); (0, 0) without one."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)
