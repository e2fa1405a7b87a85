"""Writes the service's advice on a data set with the options of the command line."""

import re

_PARAMETER = re.compile(
    r"(?<![\w=?&'\"-])(task|target|text|column|header|delimiter|decimal|missing|skip_bad|class"
    r"|labels_separator)=(?=\S)"
)


def as_options(advice: str) -> str:
    """Return advice with `--missing -` instead of the parameter `missing=-` of the API.

    Args:
        advice: A note or problem of a data set.
    """
    return _PARAMETER.sub(lambda found: f"--{found[1].replace('_', '-')} ", advice)
