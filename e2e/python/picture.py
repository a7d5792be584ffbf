"""The picture of README.md: commands typed into the built binary, and the terminal's screen drawn as SVG.

`target/e2e/venv/bin/python e2e/python/readme.py --write` draws it anew.

Behind what is seen a server runs with an empty home, on its defaults but for one worker, `tools.py`, whose text the picture
shows; and an app of the hub, `notebook`, which says `Saved.` to everything. There is no model: the offline provider calls
the tool that the message names.
"""

from __future__ import annotations

import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from xml.sax.saxutils import escape

from documents import normalised
from screen import TerminalScreen
from typist import ROOT, Typist

PICTURE = ROOT / "docs" / "picture.svg"
SDK = ROOT / "sdk" / "python" / "src"
READY_TIMEOUT = 120.0
COLUMNS = 92
ROWS = 60

COMMANDS = (
    """patchboard run -m '/call bash {"command": "wc -l LICENSE-MIT"}'""",
    'patchboard hub send "remember to buy milk" --wait',
    "cat tools.py",
    """patchboard tools call word_count '{"text": "to be or not to be"}'""",
)

TOOLS = '''\
from patchboard import serve, tool

@tool(read_only=True)
def word_count(text: str) -> int:
    """Counts the words of a text."""
    return len(text.split())

serve()
'''

NOTEBOOK = """\
import json
from websockets.sync.client import connect

with connect("ws://127.0.0.1:9473/", proxy=None) as hub:
    def send(kind, payload):
        hub.send(json.dumps({"type": kind, "payload": payload}))

    says = "I keep notes: tell me what to remember."
    send("registration", {"name": "notebook", "description": says, "capabilities": ["notes", "remember"]})
    for frame in map(json.loads, hub):
        if frame["type"] == "registration_response":
            print("registered", flush=True)
        if frame["type"] == "message":
            answer = {"messageId": frame["payload"]["id"]}
            send("response", {**answer, "type": "ack", "payload": {}})
            send("response", {**answer, "type": "notification", "payload": {"body": "Saved."}})
"""


def take(patchboard: str) -> TerminalScreen:
    """The screen after the commands; the caller closes it."""
    screen = TerminalScreen(columns=COLUMNS, rows=ROWS)
    with Typist(patchboard) as typist:
        start_what_is_behind(typist)
        for at, command in enumerate(COMMANDS):
            gap = b"\r\n" if at else b""
            screen.feed(gap + f"\x1b[1;32m$\x1b[0;1m {command}\x1b[0m\r\n".encode())
            typed = typist.type(command, screen)
            assert typed.status == 0, f"`{command}` failed (exit code {typed.status})\n{screen.text()}"
    return screen


def start_what_is_behind(typist: Typist) -> None:
    # The worker lies where no agent works; its text is shown from where the commands are typed.
    typist.save("~/board/tools.py", TOOLS)
    typist.save("tools.py", TOOLS)
    environment = f'{{ PYTHONPATH = "{SDK}" }}'
    worker = f'[[workers]]\nname = "py"\ncommand = ["{sys.executable}", "tools.py"]\nenv = {environment}\n'
    typist.save("~/board/board.toml", worker)
    typist.save("~/board/notebook.py", NOTEBOOK)
    until(typist, "patchboard serve --config ~/board/board.toml &", "ready:")
    until(typist, f"'{sys.executable}' ~/board/notebook.py &", "registered")
    # A worker is there a moment after its server.
    until(typist, "while ! patchboard tools show word_count; do :; done &", "word_count")


def until(typist: Typist, command: str, said: str) -> None:
    terminal = typist.type(command).terminal
    is_there = terminal.wait_until(lambda: any(said in line for line in terminal.now()), READY_TIMEOUT)
    assert is_there, f"`{command}` did not say `{said}`:\n{terminal.text()}"


# Drawing.

CELL = 8.4
LINE = 20
SIZE = 14
MARGIN = 18
PAPER, EDGE, INK = "#161b22", "#444c56", "#e6edf3"
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
# The sixteen colours of a terminal, by the names that `pyte` gives them, fit for the dark paper.
COLOURS = {
    "default": INK,
    "black": "#8b949e",
    "red": "#ff7b72",
    "green": "#7ee787",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#76e3ea",
    "white": "#e6edf3",
    "brightblack": "#8b949e",
    "brightred": "#ffa198",
    "brightgreen": "#7ee787",
    "brightbrown": "#e3b341",
    "brightblue": "#a5d6ff",
    "brightmagenta": "#d2a8ff",
    "brightcyan": "#b3f0ff",
    "brightwhite": "#ffffff",
}


def draw(screen: TerminalScreen) -> str:
    """The screen on paper of its own, so that it reads the same on light and dark pages."""
    rows = screen.cells()
    width = round(2 * MARGIN + COLUMNS * CELL)
    height = 2 * MARGIN + len(rows) * LINE
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        "<title>Patchboard in a terminal</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="{PAPER}" stroke="{EDGE}"/>',
        f'<g font-family="{FONT}" font-size="{SIZE}" fill="{INK}" style="white-space:pre">',
    ]
    for number, row in enumerate(rows):
        drawn += [draw_run(run, number) for run in runs(row)]
    return "\n".join([*drawn, "</g>", "</svg>", ""])


def runs(row: list) -> list[tuple[int, str, object]]:
    """Characters of one style side by side, with the column of the first; blanks at the ends are left out."""
    found: list[tuple[int, str, object]] = []
    for column, cell in enumerate(row):
        if found and style(found[-1][2]) == style(cell):
            first, text, kept = found[-1]
            found[-1] = (first, text + cell.data, kept)
        else:
            found.append((column, cell.data, cell))
    trimmed = []
    for first, text, cell in found:
        shown = text.strip()
        if shown:
            trimmed.append((first + len(text) - len(text.lstrip()), shown, cell))
    return trimmed


def style(cell) -> tuple:
    return (cell.fg, cell.bold, cell.italics, cell.underscore)


def draw_run(run: tuple[int, str, object], row: int) -> str:
    column, text, cell = run
    colour = COLOURS.get(cell.fg) or f"#{cell.fg}"
    more = f' fill="{colour}"' if colour != INK else ""
    more += ' font-weight="bold"' if cell.bold else ""
    more += ' font-style="italic"' if cell.italics else ""
    more += ' text-decoration="underline"' if cell.underscore else ""
    # The length is said because the reader's font may be wider or narrower.
    place = f'x="{MARGIN + column * CELL:.1f}" y="{MARGIN + row * LINE + 15}" textLength="{len(text) * CELL:.1f}"'
    return f"<text {place}{more}>{escape(text)}</text>"


def text_of(svg: str) -> str:
    """What can be read in a picture, line by line, from where each piece of text stands."""
    lines: dict[int, str] = {}
    for piece in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        row = round((float(piece.get("y")) - MARGIN - 15) / LINE)
        column = round((float(piece.get("x")) - MARGIN) / CELL)
        lines[row] = lines.get(row, "").ljust(column) + piece.text
    return "\n".join(lines.get(row, "") for row in range(max(lines, default=-1) + 1))


def comparable(text: str) -> str:
    return re.sub(r" +\n", "\n", normalised(text))


def write(patchboard: str) -> bool:
    """Draws the picture where it no longer looks as what is printed; says whether it did."""
    screen = take(patchboard)
    try:
        new = draw(screen)
    finally:
        screen.close()
    if PICTURE.exists() and comparable(PICTURE.read_text(encoding="utf-8")) == comparable(new):
        return False
    PICTURE.write_text(new, encoding="utf-8")
    return True


if __name__ == "__main__":
    shown = take(str(Path(sys.argv[1]).resolve()))
    print(draw(shown))
