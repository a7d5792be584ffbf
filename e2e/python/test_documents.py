"""What the documents say agrees with the program: keys and their defaults, samples of configuration, commands and flags."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from patchboard_server import binary
from typist import ROOT

# A section of the configuration is a table with one of these names at the start of the path.
SCHEMA = json.loads((ROOT / "patchboard.schema.json").read_text(encoding="utf-8"))
SECTIONS = set(SCHEMA["properties"])
# What looks like a key and is a method, a metric, a span or a file.
NOT_KEYS = re.compile(r"\.(md|py|rs|toml|json|wasm|proto|mjs|js|txt|db|token|log|gguf|sock|com|org|example)$")
# A method of the gateway and an event of workers.
METHODS = ("accounts", "correct", "export", "forget", "list", "search")
# Figures of docs/telemetry.md.
FIGURES = {
    *(f"runs.{name}" for name in ("cancelled", "completed", "failed", "live", "started")),
    *("bridge.calls", "budgets.refusals", "hub.messages", "plugins.calls", "telemetry.dropped"),
    *("tools.calls", "tools.failed", "workers.queued", "workers.ready", "workers.replaced"),
}
OTHERS = {f"memory.{method}" for method in METHODS} | FIGURES
SPAN = re.compile(r"`([^`\n]+)`")
KEY = re.compile(r"[a-z_]+(\.[a-z_*]+)+")
# `gateway.orphan_grace` (60 s)
DEFAULT = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)` \(([^()]+)\)")
# | memory | 64 MiB | `limits.plugin_memory` |
ROW = re.compile(r"^\|[^|]*\| ([^|]+) \| `([a-z_]+(?:\.[a-z_]+)+)` \|$")
TOML = re.compile(r"^( *)```toml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# Codes of problems that a sample has because it is only a part, or because files and secrets are not here.
ELSEWHERE = {"PB0108", "PB0112", "PB0114", "PB0115", "PB0117", "PB0120", "PB0122", "PB0123", "PB0124", "PB0125", "PB0126"}


def pages() -> list[Path]:
    """Pages for users; what changed in the past stands as it was, and error pages show what is wrong."""
    found = [*ROOT.glob("docs/*.md"), *ROOT.glob("docs/strategies/*.md"), *ROOT.glob("sdk/*/README.md")]
    return sorted([ROOT / "README.md", ROOT / "plugins" / "README.md", *ROOT.glob("plugins/*/README.md"), *found])


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def look_up(path: str) -> dict | None:
    """The schema of a key, or nothing where there is no such key."""
    found = SCHEMA
    for part in path.split("."):
        found = resolved(found)
        if part in found.get("properties", {}):
            found = found["properties"][part]
        elif isinstance(found.get("additionalProperties"), dict):
            found = found["additionalProperties"]
        else:
            return None
    return found


def resolved(schema: dict) -> dict:
    """The object behind a reference, a list of objects, or one that may be left out."""
    while True:
        if "$ref" in schema:
            schema = SCHEMA["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
        elif "items" in schema:
            schema = schema["items"]
        elif "anyOf" in schema:
            schema = next(one for one in schema["anyOf"] if one.get("type") != "null")
        else:
            return schema


def default_of(path: str) -> object:
    """From the key itself or the nearest section around it that says so."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        schema = look_up(".".join(parts[:cut]))
        if schema is not None and "default" in schema:
            value = schema["default"]
            for part in parts[cut:]:
                value = value.get(part) if isinstance(value, dict) else None
            return value
    return None


UNITS = {"ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "minutes": 60_000, "h": 3_600_000, "d": 86_400_000, "days": 86_400_000}
SIZES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def amount(text: str) -> tuple[str, int] | None:
    """`30s`, `16 MiB`, `10,000`: a time in milliseconds, a size in bytes or a count; nothing where it is none of them."""
    text = text.replace(",", "").replace("\u00a0", " ").strip()
    parts = re.findall(r"(\d+)\s*([A-Za-z]*)", text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != re.sub(r"\s", "", text):
        return None
    units = {unit for _, unit in parts}
    if units == {""} and len(parts) == 1:
        return ("count", int(parts[0][0]))
    if units <= set(UNITS):
        return ("time", sum(int(number) * UNITS[unit] for number, unit in parts))
    if units <= set(SIZES):
        return ("size", sum(int(number) * SIZES[unit] for number, unit in parts))
    return None


class KeysTest(unittest.TestCase):
    def test_every_key_that_is_named_exists(self) -> None:
        for page in pages():
            for span in SPAN.findall(page.read_text(encoding="utf-8")):
                path = span.split(" = ")[0]
                if KEY.fullmatch(path) and path.split(".")[0] in SECTIONS and not (NOT_KEYS.search(path) or path in OTHERS):
                    known = look_up(path.removesuffix(".*"))
                    self.assertIsNotNone(known, f"{name_of(page)} names a key that does not exist: `{span}`")

    def test_every_default_that_is_named_is_the_default(self) -> None:
        compared = 0
        for page in pages():
            text = page.read_text(encoding="utf-8")
            said = DEFAULT.findall(text)
            said += [(key, value.split(", ")[0]) for line in text.splitlines() for value, key in ROW.findall(line)]
            for key, value in said:
                default = default_of(key) if look_up(key) is not None else None
                if default is None or amount(value) is None:
                    continue
                compared += 1
                real = amount(str(default))
                self.assertEqual(amount(value), real, f"{name_of(page)}: `{key}` is {default}, not {value}")
        # Or the patterns above have stopped to find anything.
        self.assertGreater(compared, 10)

    def test_limits_of_strategies_are_the_defaults(self) -> None:
        row = re.compile(r"^\| `((?:tot|got)\.[a-z_]+)` \| ([^|]+) \|", re.MULTILINE)
        for page in sorted(ROOT.glob("docs/strategies/*.md")):
            for key, value in row.findall(page.read_text(encoding="utf-8")):
                default = default_of(f"agents.NAME.{key}")
                self.assertEqual(json.loads(value.strip().strip("`")), default, f"{name_of(page)}: `{key}`")

    def test_figures_of_the_readme_are_those_measured(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        measured = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
        for row, said in (
            ("idle memory", r"idles in (\d+) MB"),
            ("memory with 10000 idle clients", r"10,000 connected clients in (\d+) MB"),
        ):
            figure = re.search(rf"^\| {row} \| ([\d.]+) MB", measured, re.MULTILINE)
            self.assertEqual(int(re.search(said, readme)[1]), round(float(figure[1])), row)


class SamplesTest(unittest.TestCase):
    def test_every_sample_of_configuration_is_understood(self) -> None:
        for page in pages():
            for _, block in TOML.findall(page.read_text(encoding="utf-8")):
                first = block.lstrip().splitlines()[0]
                if "Cargo.toml" in first or is_beside_a_plugin(block):
                    continue
                with self.subTest(page=name_of(page), first=first), tempfile.TemporaryDirectory() as folder:
                    file = Path(folder) / "patchboard.toml"
                    file.write_text(block, encoding="utf-8")
                    told = run_patchboard("config", "check", "--config", str(file), home=folder)
                    codes = set(re.findall(r"PB\d{4}", told)) - ELSEWHERE
                    self.assertFalse(codes, told)


def is_beside_a_plugin(block: str) -> bool:
    """`grants` alone: the file beside a component in the plugins folder."""
    return not re.search(r"^\s*\[", block, re.MULTILINE) and not re.match(r"\s*(data_dir|trusted_users|drain)", block)


class CommandsTest(unittest.TestCase):
    """Commands in inline code and in blocks, down to their flags; `test_readme.py` types some of them too."""

    def setUp(self) -> None:
        self.helps: dict[tuple[str, ...], str] = {}

    def test_every_command_and_flag_exists(self) -> None:
        found = []
        for page in pages():
            for command in commands_of(page.read_text(encoding="utf-8")):
                if problem := self.problem_of(command):
                    found.append(f"{name_of(page)}: `{command}`: {problem}")
        self.assertFalse(found, "\n".join(found))

    def problem_of(self, command: str) -> str | None:
        words = command.split()[1:]
        verbs: list[str] = []
        while words and re.fullmatch(r"[a-z]+(-[a-z]+)*", words[0]) and self.has_verb(verbs, words[0]):
            verbs.append(words.pop(0))
        if not verbs and words and not words[0].startswith("-"):
            return f"there is no command `{words[0]}`"
        help_text = self.help_of(verbs)
        if words and "<COMMAND>" in help_text and re.fullmatch(r"[a-z]+", words[0]):
            return f"there is no command `{words[0]}` of `{' '.join(verbs)}`"
        for word in words:
            flag = re.match(r"--?[a-z][a-z-]*", word)
            if flag and not re.search(rf"(^|[\s,]){re.escape(flag[0])}\b", help_text):
                return f"there is no flag `{flag[0]}`"
        return None

    def has_verb(self, verbs: list[str], word: str) -> bool:
        # What is no command of its own is taken for an argument, and the help is that of the command before it.
        usage = rf"^Usage: \S+ {' '.join([*verbs, word])}\b"
        return re.search(usage, self.help_of([*verbs, word]), re.MULTILINE) is not None

    def help_of(self, verbs: list[str]) -> str:
        key = tuple(verbs)
        if key not in self.helps:
            self.helps[key] = run_patchboard(*verbs, "--help")
        return self.helps[key]


def commands_of(text: str) -> list[str]:
    """What is typed, up to the first word that is text for somebody else."""
    found = [span for span in SPAN.findall(text) if span.startswith("patchboard ")]
    for line in text.splitlines():
        line = re.sub(r"^\s*\$\s", "", line).strip()
        if line.startswith("patchboard ") and not line.endswith("."):
            found.append(line)
    return [shortened for one in found if len((shortened := shorten(one)).split()) > 1]


def shorten(command: str) -> str:
    command = re.sub(r"\"[^\"]*\"|'[^']*'", "TEXT", command)
    command = re.split(r"\s[|&#>]|[\"'{;…]", command)[0]
    return re.sub(r"\[.*?\]", "", command).strip()


def run_patchboard(*arguments: str, home: str = "/nonexistent") -> str:
    environment = {"HOME": home, "PATH": "/usr/bin:/bin", "NO_COLOR": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [binary(), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
    return done.stdout + done.stderr


if __name__ == "__main__":
    unittest.main()
