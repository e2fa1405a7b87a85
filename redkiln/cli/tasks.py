"""Commands on tasks: what jobs can do, and the fields of their specs."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from redkiln.cli.command import Session, command, default_command, example_text
from redkiln.cli.view.render import Column, print_table

REQUIRED = "required"


@dataclass(frozen=True)
class SchemaField:
    """One field of a spec: its path, allowed values, default and meaning."""

    path: str
    kind: str
    default: str
    description: str


def register(app: typer.Typer) -> None:
    """Add these commands to the application."""
    group = typer.Typer(
        rich_markup_mode="rich",
        help="List the tasks and the fields of their specs.",
        epilog=example_text((
            "redkiln tasks",
            "redkiln tasks show image-classification",
            "redkiln tasks show image-classification --json    # JSON Schema",
        )),
    )  # fmt: skip
    app.add_typer(group, name="tasks", rich_help_panel="Train")
    default_command(group)(list_tasks)
    command(group, "show", examples=("redkiln tasks show image-classification",))(show)


def list_tasks(session: Session) -> None:
    """List the tasks that a spec can name."""
    listed = session.client.tasks()
    if session.is_json:
        session.emit(listed)
        return
    columns = (Column("task"), Column("what a job does", when_narrow="fold"))
    print_table(
        session.out, columns, [(Text(item.name, style="bold"), item.description) for item in listed]
    )
    session.note(Text("Fields and defaults: redkiln tasks show TASK", style="dim"))


def show(
    session: Session,
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="Name of the task.")
    ] = "image-classification",
) -> None:
    """Show every field of a task's spec with its default."""
    schema = session.client.task_schema(task)
    if session.is_json:
        session.emit(schema)
    else:
        session.out.print(Text("field  = default  allowed values", style="dim"))
        _print_fields(session.out, list(schema_fields(schema)))


def schema_fields(schema: dict[str, Any]) -> Iterator[SchemaField]:
    """Yield the fields of a JSON Schema, depth first and in order, by their dotted paths."""
    yield from _fields(schema, schema.get("$defs", {}), "")


def _fields(schema: Any, definitions: Any, prefix: str) -> Iterator[SchemaField]:
    required = schema.get("required", ())
    for name, raw in schema.get("properties", {}).items():
        field = _resolve(raw, definitions)
        path = f"{prefix}{name}"
        groups = [option for option in _options(field, definitions) if "properties" in option]
        if len(groups) == 1:
            if _is_optional(field):
                yield SchemaField(path, "object", "", _one_line(raw.get("description", "")))
            yield from _fields(groups[0], definitions, f"{path}.")
            continue
        default = REQUIRED if name in required else _default_words(field)
        description = raw.get("description") or field.get("description", "")
        yield SchemaField(path, _kind_words(field, definitions), default, _one_line(description))
        yield from _fields_of_groups(groups, definitions, f"{path}.")


def _fields_of_groups(groups: list[Any], definitions: Any, prefix: str) -> Iterator[SchemaField]:
    """Yield the fields of alternatives, equal ones once, each with the names that it belongs to."""
    tags: dict[SchemaField, list[str]] = {}
    for group in groups:
        own = {name: field for name, field in group["properties"].items() if name != "name"}
        tag = group["properties"].get("name", {}).get("const", "")
        for field in _fields({**group, "properties": own}, definitions, prefix):
            tags.setdefault(field, []).append(tag)
    for field in sorted(tags, key=lambda field: [one.path for one in tags].index(field.path)):
        names = [tag for tag in tags[field] if tag]
        is_everywhere = len(tags[field]) == len(groups) > 1
        kind = field.kind if is_everywhere or not names else f"{field.kind} ({', '.join(names)})"
        yield SchemaField(field.path, kind, field.default, field.description)


def _resolve(schema: Any, definitions: Any) -> Any:
    if "$ref" in schema:
        return {**definitions[schema["$ref"].rpartition("/")[2]], **schema}
    return schema


def _options(schema: Any, definitions: Any) -> list[Any]:
    listed = schema.get("anyOf") or schema.get("oneOf") or [schema]
    return [_resolve(option, definitions) for option in listed]


def _is_optional(schema: Any) -> bool:
    return {"type": "null"} in schema.get("anyOf", ())


def _kind_words(schema: Any, definitions: Any) -> str:
    kinds = [_one_kind(option) for option in _options(schema, definitions)]
    return " | ".join(dict.fromkeys(kind for kind in kinds if kind != "null"))


def _one_kind(schema: Any) -> str:
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    if "properties" in schema:
        return str(schema["properties"].get("name", {}).get("const", "object"))
    kind = str(schema.get("type", "any"))
    if kind == "array":
        items = schema.get("items", {})
        if "enum" in items:
            return f"list of {', '.join(str(value) for value in items['enum'])}"
        return f"list of {items['type']}s" if "type" in items else "list"
    return f"{kind}{_bounds(schema)}"


def _bounds(schema: Any) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low}..{high}"
    signs = (
        (">=", "minimum"),
        (">", "exclusiveMinimum"),
        ("<=", "maximum"),
        ("<", "exclusiveMaximum"),
    )
    parts = [f"{sign} {schema[key]}" for sign, key in signs if key in schema]
    return f" {', '.join(parts)}" if parts else ""


def _default_words(schema: Any) -> str:
    if "default" not in schema:
        return str(schema.get("const", ""))
    default = schema["default"]
    if isinstance(default, dict) and "name" in default:
        return str(default["name"])
    return "" if default is None else json.dumps(default).strip('"')


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print_fields(console: Console, fields: list[SchemaField]) -> None:
    group = ""
    for field in fields:
        if field.path.partition(".")[0] != group:
            group = field.path.partition(".")[0]
            console.print()
        head = Text(field.path, style="bold")
        if field.default:
            sign = "" if field.default == REQUIRED else "= "
            head.append(f"  {sign}{field.default}", style="not bold cyan")
        if field.kind != field.default:
            head.append(f"  {field.kind}", style="not bold dim")
        console.print(head)
        if field.description:
            console.print(Padding(Text(field.description), (0, 0, 0, 4)))
