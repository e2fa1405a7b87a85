"""Reads XML without document types, and so without entities that could unfold or be fetched."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from service.datasets.inspect.boxes.text import BadText

_MAX_DEPTH = 64


@dataclass(slots=True)
class Element:
    """An element of an XML file, with the line on which it begins."""

    tag: str
    line: int
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def find(self, tag: str) -> "Element | None":
        """Return the first child with this tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def find_all(self, tag: str) -> Iterator["Element"]:
        """Yield the children with this tag."""
        return (child for child in self.children if child.tag == tag)

    def get_text(self, tag: str) -> str:
        """Return the text of the first child with this tag; empty without one."""
        child = self.find(tag)
        return "" if child is None else child.text.strip()


def parse_xml(content: bytes, path: str) -> Element:
    """Return the root of an XML file without a document type, which could define entities.

    Raises:
        BadText: It is not such a file, or is nested too deeply.
    """
    parser = expat.ParserCreate()
    top = Element("", 0)
    stack = [top]

    def start(tag: str, _attributes: dict[str, str]) -> None:
        if len(stack) > _MAX_DEPTH:
            fail(f"is nested deeper than {_MAX_DEPTH} elements")
        element = Element(tag, parser.CurrentLineNumber)
        stack[-1].children.append(element)
        stack.append(element)

    def end(_tag: str) -> None:
        stack.pop()

    def add_text(text: str) -> None:
        stack[-1].text += text

    def fail(message: str) -> NoReturn:
        raise BadText(message, f"{path}, line {parser.CurrentLineNumber}")

    def refuse_doctype(*_: object) -> None:
        fail("has a DOCTYPE, which could hold entities; remove that line")

    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = refuse_doctype
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        words = expat.ErrorString(error.code)
        raise BadText(f"is not valid XML: {words}", f"{path}, line {error.lineno}") from None
    except (LookupError, ValueError) as error:
        raise BadText(f"is not valid XML: {error}", path) from None
    return top.children[0]
