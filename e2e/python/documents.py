"""Fenced blocks of a Markdown document: what is typed, what is said to be printed, and which files are saved.

A `console` block has commands after `$ `, each followed by what it prints; a line that ends in a backslash goes on in the
next one. Of a block in `sh` every line is typed, and nothing is said about what it prints. `…` stands for any text; on a
line of its own, for any lines. Any other block whose first line is a comment with a file's name is saved under that name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ANYTHING = "…"
TYPED = ("console", "sh")
FENCE = re.compile(r"^( *)(```+)(\S*)\s*$")
# `# tools.py`, `// first.mjs`: a name with an ending and nothing else.
FILE_NAME = re.compile(r"^(?:#|//|--)\s*((?:~/)?[\w./-]+\.\w+)\s*$")
# Ids, days and measured times differ from run to run; everything else is compared as it stands.
VARIABLE = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "ID"),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), "DAY"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)? ?(µs|ms|s)\b"), "SPAN"),
    # It grows with every word in the description of a tool, and machines differ in what tools they can have.
    (re.compile(r"\b\d+ tokens in\b"), "COUNT tokens in"),
)


@dataclass
class Command:
    text: str
    # What the document says it prints, without indentation; nothing is said in an `sh` block.
    shown: list[str] | None
    # The line of the document on which it begins, from 1.
    line: int
    # Where `shown` is in the document: the first line and the one after the last, from 0.
    place: tuple[int, int] = (0, 0)
    indent: str = ""

    @property
    def is_background(self) -> bool:
        return without_comment(self.text).endswith("&")


@dataclass
class File:
    name: str
    text: str
    language: str
    line: int


@dataclass
class Document:
    path: Path
    lines: list[str]
    steps: list[Command | File] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Document:
        document = cls(path, path.read_text(encoding="utf-8").splitlines())
        document._find_blocks()
        return document

    def _find_blocks(self) -> None:
        start = None
        for at, line in enumerate(self.lines):
            found = FENCE.match(line)
            if start is None:
                if found:
                    start = (at + 1, found)
            elif found and found[2] == start[1][2] and not found[3]:
                first, opening = start
                self._add_block(opening[3], opening[1], first, at)
                start = None
        assert start is None, f"{self.path}: the block before line {start[0]} does not end"

    def _add_block(self, language: str, indent: str, first: int, end: int) -> None:
        body = [line.removeprefix(indent) for line in self.lines[first:end]]
        if language in TYPED:
            read = console if language == "console" else shell
            for command in read(body):
                command.line += first
                command.place = (command.place[0] + first, command.place[1] + first)
                command.indent = indent
                self.steps.append(command)
        elif body and (name := FILE_NAME.match(body[0])):
            self.steps.append(File(name[1], "\n".join(body) + "\n", language, first))

    def write(self, printed: dict[int, list[str]]) -> bool:
        """Puts what was printed where the document shows something else, by the commands' lines; says if any did."""
        lines = list(self.lines)
        commands = [step for step in self.steps if isinstance(step, Command) and step.line in printed]
        # From the end on, so that places stay right.
        for command in reversed(commands):
            first, end = command.place
            new = merged(command.shown or [], printed[command.line])
            lines[first:end] = [f"{command.indent}{line}".rstrip() for line in new]
        if lines == self.lines:
            return False
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return True


def console(body: list[str]) -> list[Command]:
    commands: list[Command] = []
    at = 0
    while at < len(body):
        if not body[at].startswith("$ "):
            assert commands or not body[at].strip(), f"printed by no command: {body[at]}"
            at += 1
            continue
        start, text = at, body[at][2:]
        while text.endswith("\\"):
            at += 1
            text += "\n" + body[at]
        first = at = at + 1
        while at < len(body) and not body[at].startswith("$ "):
            at += 1
        end = at
        # An empty line before the next command only divides.
        while end > first and not body[end - 1].strip():
            end -= 1
        commands.append(Command(text, body[first:end], start + 1, (first, end)))
    return commands


def shell(body: list[str]) -> list[Command]:
    commands = []
    at = 0
    while at < len(body):
        start, text = at, body[at]
        while text.endswith("\\"):
            at += 1
            text += "\n" + body[at]
        at += 1
        if without_comment(text):
            commands.append(Command(text, None, start + 1))
    return commands


def without_comment(command: str) -> str:
    return re.sub(r"(^|\s)#\s.*$", "", command).strip()


# Comparing.


def normalised(text: str) -> str:
    for pattern, name in VARIABLE:
        text = pattern.sub(name, text)
    return text


def is_printed(shown: list[str], printed: list[str], *, so_far: bool = False) -> bool:
    """Whether what the document shows is what was printed, or, of what goes on, the first of it."""
    pattern = "".join(line_pattern(line) for line in shown)
    text = "".join(f"{normalised(line)}\n" for line in printed)
    compare = re.match if so_far else re.fullmatch
    return compare(pattern, text) is not None


def line_pattern(line: str) -> str:
    line = line.rstrip()
    if line == ANYTHING:
        return r"(?:.*\n)*?"
    return ".*".join(re.escape(part) for part in normalised(line).split(ANYTHING)) + r"\n"


def merged(shown: list[str], printed: list[str]) -> list[str]:
    """What a document should show of what was printed: as before where that still fits, and cut where it was cut."""
    if is_printed(shown, printed):
        return shown
    kept = [line for line in shown if ANYTHING in line and line.strip() != ANYTHING]
    new = []
    for line in printed:
        fitting = [old for old in kept if re.fullmatch(line_pattern(old), f"{normalised(line)}\n")]
        new.append(fitting[0] if fitting else line)
    if ANYTHING in shown:
        cut = shown.index(ANYTHING)
        end = len(shown) - cut - 1
        if len(new) > cut + end:
            new = [*new[:cut], ANYTHING, *new[len(new) - end :]]
    return new
