"""What a docstring says of a function and of its parameters."""

from __future__ import annotations

import inspect
import re

_HEADINGS = re.compile(
    r"(args|arguments|parameters|returns?|yields?|raises|examples?|notes?|see also|warnings?)\s*:?\s*$", re.IGNORECASE
)
_PARAMETER_HEADINGS = ("args", "arguments", "parameters")
_FIELD = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)$")
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.+)$")
_NUMPY = re.compile(r"\*{0,2}(\w+)\s*(?::.*)?$")


def read(docstring: str | None) -> tuple[str, dict[str, str]]:
    """The description, and the parameters' descriptions in the Google, numpy or reStructuredText manner."""
    if not docstring:
        return "", {}
    lines = inspect.cleandoc(docstring).splitlines()
    described: list[str] = []
    parameters: dict[str, str] = {}
    section: str | None = None
    current: str | None = None
    current_indent = 0
    for at, line in enumerate(lines):
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if field := _FIELD.match(text):
            section, current, current_indent = "field", field[1], indent
            parameters[current] = field[2]
        elif text.startswith(":") and re.match(r":\w+[^:]*:", text):
            section, current = "field", None
        elif indent == 0 and _HEADINGS.match(text) and _starts_section(lines, at):
            section, current = text.rstrip(":").strip().lower(), None
        elif section is None:
            described.append(line)
        elif not text or set(text) == {"-"}:
            continue
        elif current is not None and indent > current_indent:
            parameters[current] = f"{parameters[current]} {text}".strip()
        elif section in _PARAMETER_HEADINGS:
            current, current_indent = None, indent
            if indent > 0 and (entry := _GOOGLE.match(text)):
                current = entry[1]
                parameters[current] = entry[2]
            elif indent == 0 and (entry := _NUMPY.match(text)):
                current = entry[1]
                parameters[current] = ""
        else:
            current = None
    return "\n".join(described).strip(), {name: text for name, text in parameters.items() if text}


def _starts_section(lines: list[str], at: int) -> bool:
    """A heading ends with a colon or is underlined; the word alone may begin a sentence."""
    underlined = at + 1 < len(lines) and bool(lines[at + 1].strip()) and set(lines[at + 1].strip()) == {"-"}
    return underlined or lines[at].strip().endswith(":")
