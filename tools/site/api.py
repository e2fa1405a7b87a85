"""The reference of the HTTP API, from the OpenAPI document that the service serves."""

import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.app import create_app
from service.settings import Settings
from tools.site.markdown import code, table

Json = dict[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")
"""HEAD answers as GET does, without a body."""
WORKER_PATHS = ("/v1/attempts/", "/v1/workers/hello", "/v1/workers/status", "/v1/workers/claim")

_INTRODUCTION = """\
# HTTP API reference

`make docs` generates this page from the OpenAPI document of the service, which a running service
also serves at `/docs`, `/redoc` and `/openapi.json`. [HTTP API](../api.md) explains the rules that
all endpoints share: errors, paging, keys and streams. Every endpoint may answer 400, 401, 403, 422,
429 and 503; one with a name or id in its path also 404 and 410; POST, PUT and PATCH 413 and
415; and what changes something 409 and 507. They are listed here only where an endpoint says more
about them.
"""


def build_page() -> str:
    """Return the page as Markdown: the endpoints by their first path segment, then the objects."""
    with tempfile.TemporaryDirectory() as folder:
        document = create_app(Settings(state_dir=Path(folder))).openapi()
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                text = _operation(method, path, operations[method])
                groups.setdefault(_group(path, operations[method]), []).append(text)
    parts = [_INTRODUCTION]
    for name, texts in sorted(groups.items(), key=_last):
        parts += [f"## {name}\n", *texts]
    parts.append(_objects(document["components"]["schemas"]))
    return "\n".join(parts)


def _group(path: str, operation: Json) -> str:
    if path.startswith(WORKER_PATHS):
        return "What workers use"
    return str(operation["tags"][0]).capitalize()


def _last(group: tuple[str, list[str]]) -> bool:
    return group[0] == "What workers use"


def _operation(method: str, path: str, operation: Json) -> str:
    parts = [f"### `{method.upper()} {path}`\n", f"{_text(operation.get('description', ''))}\n"]
    if parameters := [p for p in operation.get("parameters", ()) if not _is_plain_path(p)]:
        parts.append(table(("parameter", "in", "type", "what"), map(_parameter, parameters)))
    if body := operation.get("requestBody"):
        parts.append(f"Body: {_content(body)}\n")
    parts.append("".join(_answers(operation["responses"])))
    return "\n".join(parts)


def _answers(responses: Json) -> Iterator[str]:
    for status, response in sorted(responses.items()):
        if status != "422" and "$ref" not in response:
            when = response.get("description", "").removeprefix("Successful Response")
            words = " ".join(filter(None, [when, _content(response)]))
            yield f"- **{status}**: {words or 'No body.'}\n"


def _is_plain_path(parameter: Json) -> bool:
    """Whether the path says everything about the parameter."""
    return parameter["in"] == "path" and not parameter.get("description")


def _parameter(parameter: Json) -> tuple[str, str, str, str]:
    schema = parameter["schema"]
    words = [parameter.get("description", "")]
    if parameter.get("required") and parameter["in"] != "path":
        words.append("Required.")
    default = schema.get("default")
    if default is not None:
        words.append(f"Default: `{json.dumps(default)}`.")
    return code(parameter["name"]), parameter["in"], _type(schema), " ".join(filter(None, words))


def _content(holder: Json) -> str:
    """Name the media types of a body or an answer, with the objects that JSON holds."""
    words = []
    for media_type, content in holder.get("content", {}).items():
        schema = content.get("schema", {})
        kind = _type(schema) if schema.get("$ref") or schema.get("type") else ""
        note = _text(schema.get("description", ""))
        words.append(f"{' '.join(filter(None, [code(media_type), kind]))}{note and f': {note}'}")
    return " or ".join(words)


def _objects(schemas: Json) -> str:
    listed = {name: schema for name, schema in schemas.items() if not name.startswith("HTTPVal")}
    return "## Objects\n\n" + "\n".join(_object(name, schema) for name, schema in listed.items())


def _object(name: str, schema: Json) -> str:
    summary, notes = split_attributes(schema.get("description", ""))
    parts = [f"### {_title(name)}\n"]
    if summary:
        parts.append(f"{summary}\n")
    if "enum" in schema:
        parts.append("One of " + ", ".join(code(str(value)) for value in schema["enum"]) + ".\n")
    required = schema.get("required", ())
    rows = [
        (code(field), _type(inner), "" if field in required else _optional(inner),
         inner.get("description") or notes.get(field, ""))
        for field, inner in schema.get("properties", {}).items()
    ]  # fmt: skip
    if rows:
        parts.append(table(("field", "type", "default", "what"), rows))
    return "\n".join(parts)


def _optional(schema: Json) -> str:
    default = schema.get("default")
    return "optional" if default in (None, "", [], {}) else code(json.dumps(default))


def split_attributes(description: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its text and what its `Attributes:` say of each field."""
    text, _, attributes = description.partition("Attributes:")
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", attributes, re.M)
    return _text(text), {name: " ".join(words.split()) for name, words in found}


def _type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{_title(name)}](#{_title(name).lower()})"
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if options:
        return " or ".join(map(_type, options))
    return " ".join(_one_type(schema))


def _one_type(schema: Json) -> Iterator[str]:
    if "const" in schema or "enum" in schema:
        yield ", ".join(code(str(value)) for value in schema.get("enum", [schema.get("const")]))
    elif schema.get("type") == "array":
        yield f"list of {_type(schema.get('items', {})) or 'values'}"
    else:
        yield str(schema.get("format") or schema.get("type", ""))
    limits = [schema.get("minimum"), schema.get("maximum")]
    if None not in limits:
        yield f"{limits[0]}..{limits[1]}"
    elif limits[0] is not None:
        yield f">= {limits[0]}"


def _title(name: str) -> str:
    """Turn `Page_JobView_` into `Page-of-JobView`, which is also an anchor."""
    return re.sub(r"^Page_(\w+)_$", r"Page-of-\1", name)


def _text(docstring: str) -> str:
    """Drop what a docstring says to callers in Python, and join its lines."""
    text = re.split(r"\n\s*(?:Args|Returns|Raises|Yields):", docstring)[0]
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n")).strip()
