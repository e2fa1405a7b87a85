"""Media types of bodies."""


def base_type(content_type: str) -> str:
    """Return a `Content-Type` without its parameters, in small letters."""
    return content_type.partition(";")[0].strip().lower()


def is_json(content_type: str) -> bool:
    """Return whether the service parses a body of this type as JSON, as FastAPI does."""
    main, _, sub = base_type(content_type).partition("/")
    return main == "application" and (sub == "json" or sub.endswith("+json"))
