"""Writes the service's advice for its reader: with options of the command line, or in Python.

The service names parameters and requests of its API, such as `missing=-` and `GET /v1/jobs`.
"""

import json
import re
import shlex

_NAMES = (
    "task|target|text|column|header|delimiter|encoding|decimal|missing|skip_bad|class"
    "|labels_separator"
)
_VALUE = r"""(?:'[^']*'|"[^"]*"|[^\s'"])+"""
_PARAMETER = re.compile(rf"(?<![\w=?&'\"-])({_NAMES})=(?=\S)")
_REPEATED = re.compile(rf"(?<![\w=?&'\"-])({_NAMES})=({_VALUE}(?: \1={_VALUE})*)")
_NEXT = re.compile(rf" (?:(?:{_NAMES})=|\.\.\.)")
_QUOTED = re.compile(r"""'([^']*)'|"([^"]*)\"""")

_CHECK = "redkiln datasets check NAME"

REQUESTS = (
    (rf"push the table again to train without (it|them): ((?:{_NAMES})=.+)$",
     r"to train without \1: redkiln train FILE \2",
     r"push the table again to train without \1: client.push_dataset(FILE, \2)"),
    (r"POST /v1/datasets\?(\S+)", r"redkiln datasets push FILE \1",
     r"client.push_dataset(FILE, \1)"),
    (r"GET /v1/datasets/\{\w+\} lists (.+?) under `pairs`",
     rf"`{_CHECK} --pairs` lists \1", r"`client.dataset(NAME).warnings` lists \1 under `pairs`"),
    (r"GET /v1/datasets/(\w+)", r"`redkiln datasets show \1`", r'`client.dataset("\1").errors`'),
    (r"GET /v1/datasets\b(?!/)", "`redkiln datasets`", "`client.datasets()`"),
    (r"GET /v1/jobs/\{\w+\}/artifacts", "`redkiln artifacts JOB`", "`client.artifacts(job_id)`"),
    (r"POST /v1/jobs/\{\w+\}/finish", "`redkiln finish JOB`", "`client.finish(job_id)`"),
    (r"GET /v1/jobs\b(?!/)", "`redkiln jobs`", "`client.jobs()`"),
    (r"GET /v1/workers\b(?!/)", "`redkiln workers`", "`client.workers()`"),
    (r"GET /v1/gpus\b(?!/)", "`redkiln gpus`", "`client.gpus()`"),
    (r"redkiln models delete (\S+) (\d+)", r"redkiln models delete \1 \2",
     r'client.delete_model("\1", \2)'),
    (r"GET /v1/keys\b(?!/)", "`redkiln keys`", "`client.keys()`"),
    (r"POST /v1/models\b(?!/)", "`redkiln models register`", "`client.register_model`"),
    (r"PUT /v1/models/\w+", "`redkiln train DATA --model FILE`", "`client.push_model(FILE)`"),
    (r"PUT /v1/bundles/\w+", "`redkiln run PROGRAM`",
     "`client.push_bundle(open_bundle(FOLDER).package)`"),
)  # fmt: skip
"""Requests that the service advises, as patterns, with the command and the call that send them."""


def as_options(advice: str, *, dataset: str | None = None) -> str:
    """Return advice with `--missing -` instead of the parameter `missing=-` of the API.

    Args:
        advice: A note, a problem or an error of the service.
        dataset: Name of the data set that it is about, for commands.
    """
    for request, command, _ in REQUESTS:
        advice = re.sub(request, command, advice)
    if dataset is not None:
        advice = advice.replace(_CHECK, _CHECK.replace("NAME", shlex.quote(dataset)))
    advice = advice.replace("header=true", "--header").replace("header=false", "--no-header")
    return _PARAMETER.sub(lambda found: f"--{found[1].replace('_', '-')} ", advice)


def as_arguments(advice: str) -> str:
    """Return advice with `missing=["-"]` instead of the parameter `missing=-` of the API.

    Args:
        advice: A note, a problem or an error of the service.
    """
    for request, _, call in REQUESTS:
        advice = re.sub(request, call, advice)
    return _REPEATED.sub(_as_argument, advice)


def _as_argument(found: re.Match[str]) -> str:
    comma = "," if _NEXT.match(found.string, found.end()) else ""
    return f"{_write_argument(found)}{comma}"


def _write_argument(found: re.Match[str]) -> str:
    name, written = found.groups()
    *values, last = written.split(f" {name}=")
    value, rest = _split_end(last)
    read = [_unquote(one) for one in [*values, value]]
    match name:
        case "column":
            uses = dict(one.rpartition("=")[::2] for one in read)
            return f"columns={_show(uses)}{rest}"
        case "class":
            return f"classes={_show(read)}{rest}"
        case "missing":
            return f"missing={_show([word for word in read if word])}{rest}"
        case "skip_bad":
            return f"skip_bad={read[0]}{rest}"
        case "header":
            return f"header={read[0] == 'true'}{rest}"
    return f"{name}={_show(read[0])}{rest}"


def _split_end(value: str) -> tuple[str, str]:
    """Return a value, and the marks of the sentence after it; a value may itself be a mark."""
    end = len(value.rstrip(";,.):")) or 1
    return value[:end], value[end:]


def _unquote(value: str) -> str:
    return _QUOTED.sub(lambda found: found[1] or found[2] or "", value)


def _show(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
