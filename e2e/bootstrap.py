"""Makes the Python environment of the end-to-end drivers. Needs only the standard library, and no root.

    python3 e2e/bootstrap.py --venv DIR --report FILE REQUIREMENTS...

The environment is made by the first way that works on this machine: the `venv` module, or `virtualenv` from the package
index. Nothing is done when DIR already holds what is wanted. The report is JSON: {"python": PATH or null, "fatal": REASON or null,
"missing": [{"requirement": LINE, "reason": WHY}]}.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VIRTUALENV = "virtualenv==20.29.3"
STAMP = "patchboard-requirements.json"
COMMAND_TIMEOUT = 600


class Unavailable(Exception):
    """Something cannot be had here; the text says what and why."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, required=True)
    parser.add_argument("--report", type=Path, required=True)
    parser.add_argument("--way", choices=[name for name, _ in WAYS], action="append", help="try only these ways")
    parser.add_argument("requirements", type=Path, nargs="+")
    arguments = parser.parse_args()
    wanted = [line for path in arguments.requirements for line in read_requirements(path.read_text())]
    report = prepare(arguments.venv.absolute(), wanted, arguments.way)
    arguments.report.write_text(json.dumps(report))
    return 0 if report["python"] else 1


def prepare(venv: Path, wanted: list[str], ways: list[str] | None = None) -> dict:
    python = python_in(venv)
    if is_current(venv, wanted):
        return {"python": str(python), "fatal": None, "missing": []}
    try:
        if not has_pip(python):
            print(f"making a Python environment in {venv}")
            make(venv, ways)
        print(f"installing {', '.join(wanted)}")
        missing = install(python, wanted)
    except Unavailable as reason:
        return {"python": None, "fatal": str(reason), "missing": []}
    if not missing:
        (venv / STAMP).write_text(stamp(wanted))
    return {"python": str(python), "fatal": None, "missing": missing}


def read_requirements(text: str) -> list[str]:
    """One requirement a line; `#` starts a comment."""
    lines = (line.split("#", 1)[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def is_current(venv: Path, wanted: list[str]) -> bool:
    """Whether everything wanted was installed earlier, and by this Python."""
    try:
        noted = json.loads((venv / STAMP).read_text())
    except (OSError, ValueError):
        return False
    now = json.loads(stamp(wanted))
    same = isinstance(noted, dict) and noted.get("python") == now["python"]
    return same and set(now["wanted"]) <= set(noted.get("wanted", [])) and has_pip(python_in(venv))


def stamp(wanted: list[str]) -> str:
    return json.dumps({"python": sys.version, "wanted": sorted(wanted)})


def python_in(venv: Path) -> Path:
    return venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def has_pip(python: Path) -> bool:
    return succeeds([str(python), "-m", "pip", "--version"])


# Making the environment.


def make(venv: Path, ways: list[str] | None) -> None:
    reasons = []
    for name, way in WAYS:
        if ways and name not in ways:
            continue
        shutil.rmtree(venv, ignore_errors=True)
        try:
            way(venv)
        except Unavailable as reason:
            print(f"  {name}: {reason}")
            reasons.append(f"{name}: {reason}")
            continue
        if has_pip(python_in(venv)):
            return
        reasons.append(f"{name}: the environment has no working pip")
    shutil.rmtree(venv, ignore_errors=True)
    raise Unavailable("no virtual environment could be made; " + "; ".join(reasons))


def by_venv(venv: Path) -> None:
    run([sys.executable, "-m", "venv", str(venv)])


def by_virtualenv(venv: Path) -> None:
    """For systems without `venv`, or with a `venv` that lacks its pip."""
    with tempfile.TemporaryDirectory() as folder:
        packages = Path(folder) / "packages"
        run([sys.executable, "-m", "pip", "install", "--only-binary=:all:", "--target", str(packages), VIRTUALENV])
        run([sys.executable, "-m", "virtualenv", "--no-download", str(venv)], {"PYTHONPATH": str(packages)})


WAYS = [("venv", by_venv), ("virtualenv", by_virtualenv)]


# Installing packages.


def install(python: Path, wanted: list[str]) -> list[dict]:
    """Installs all at once, or one by one to find out which cannot be had; gives those with the reason."""
    if not wanted or try_install(python, wanted) is None:
        return []
    reasons = ((one, try_install(python, [one])) for one in wanted)
    return [{"requirement": one, "reason": reason} for one, reason in reasons if reason is not None]


def try_install(python: Path, wanted: list[str]) -> str | None:
    # Only wheels: building from source would need who knows what and take who knows how long.
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--only-binary=:all:", *wanted]
    try:
        run(command)
    except Unavailable as reason:
        return str(reason)
    return None


# Running programs.


def run(command: list[str], extra_environment: dict[str, str] | None = None) -> None:
    environment = {**os.environ, **(extra_environment or {})}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=COMMAND_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode != 0:
        raise Unavailable(last_words(done.stdout.decode("utf-8", "replace")) or f"exit status {done.returncode}")


def succeeds(command: list[str]) -> bool:
    try:
        run(command)
    except Unavailable:
        return False
    return True


def last_words(output: str) -> str:
    """The line of a program's output that says best what went wrong."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or [""])[-1]


if __name__ == "__main__":
    sys.exit(main())
