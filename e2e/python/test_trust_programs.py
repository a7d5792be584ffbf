"""Programs of workers and MCP servers whose code an agent can change get no further than a command does, and what keeps
protected files from programs holds: folders that lead to them stay, and nothing is mounted on the machine itself.
"""

from __future__ import annotations

import importlib.util
import os
import py_compile
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from gateway_client import eventually
from patchboard_server import binary
from trust_case import HERE, NAMED, TIMEOUT, AsAnotherUser, Owner, TrustTestCase, quoted

PYTHON = sys.executable
# A program is looked at again after so long.
PATIENT = 60


class Place(Owner):
    """`conf` holds the configuration and `data` the data directory: agents write to neither."""

    def __init__(self, program: str) -> None:
        super().__init__(NAMED, program)
        self.folder = self.root / "conf"
        self.folder.mkdir()
        self.file = self.target = self.folder / "patchboard.toml"
        self.code = self.work / "code"
        self.code.mkdir()
        self.data = self.home / ".local" / "share"
        self.server.data_dir = self.data / "patchboard"
        self.server.folder = self.cwd = self.root / "here"
        self.cwd.mkdir()

    def environment(self) -> dict[str, str]:
        folders = {"XDG_DATA_HOME": str(self.data), "XDG_CONFIG_HOME": str(self.home / ".config")}
        return {**super().environment(), **folders}

    def starts(self, name: str) -> str:
        return f'"mcp.server":"{name}"'


class ProgramsTestCase(TrustTestCase):
    def place(self, config: str = "") -> Place:
        place = Place(self.program)
        place.file.write_text(config)
        self.addCleanup(place.close)
        self._own_servers.append(place.server)
        return place


class Ways:
    """Ways of bringing code into a program; `namespaces` of the class says what the server's kernel gives."""

    def test_code_that_is_loaded_from_the_working_folder_gets_no_further_than_a_command(self) -> None:
        place = self.place()
        outside, notes = place.outside, place.work / "notes"

        def leave(name: str) -> str:
            return f"echo >> {outside}/{name}; echo >> {notes}/{name}"

        def python(name: str) -> str:
            return f"import os; os.system({leave(name)!r})\n"

        def node(name: str) -> str:
            return f"require('child_process').execSync({quoted(leave(name))})\n"

        folder = f"working_folder = {quoted(str(place.code))}\n"
        relative = os.path.relpath(place.code, place.cwd)
        # Command, table, file, text.
        ways = {
            "make": (["make", "serve"], folder, "Makefile", f"serve:\n\t{leave('make')}\n"),
            "attached": (["make", "-C", relative, "-f", "other.mk"], "", "other.mk", f"x:\n\t{leave('attached')}\n"),
            "module": ([PYTHON, "-X", "utf8", "-m", "srv"], folder, "srv.py", python("module")),
            "bundled": ([PYTHON, "-um", "srv2"], folder, "srv2.py", python("bundled")),
            "script": ([PYTHON, f"{relative}/main.py"], "", "main.py", python("script")),
        }
        if shutil.which("node"):
            ways["node"] = (["node", "build/index"], folder, "build/index.js", node("node"))
        if shutil.which("npm"):
            scripts = quoted({"name": "x", "version": "1.0.0", "scripts": {"start": leave("npm")}})
            ways["npm"] = (["npm", "start"], folder, "package.json", scripts)
        if shutil.which("npx"):
            text = f"#!/bin/sh\n{leave('npx')}\n"
            ways["npx"] = (["npx", "--no-install", "x"], folder, "node_modules/.bin/x", text)
        tables = [f"[mcp.{name}]\ncommand = {quoted(command)}\n{table}" for name, (command, table, *_) in ways.items()]
        place.file.write_text("".join(tables))
        stage = place.work / "stage"
        for _, _, file, text in ways.values():
            path = stage / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)
        place.server.start()
        place.bash(f"cp -r {stage}/. {place.code}")
        self.assertTrue((place.code / "Makefile").exists())
        place.server.terminate()
        before = len(place.server.log())
        place.server.start()

        def tried() -> bool:
            log = place.server.log()[before:]
            return all(place.starts(name) in log for name in ways)

        eventually(tried, "every server was tried", PATIENT)
        place.server.terminate()
        self.assertEqual(sorted(path.name for path in outside.iterdir()), [])
        # Trusted, they run, with what a command may do.
        place.trust()
        place.server.start()
        runs = [name for name in ways if name not in ("npm", "npx")]
        eventually(lambda: all((notes / name).exists() for name in runs), f"{runs} run once trusted", PATIENT)
        place.server.terminate()
        self.assertEqual(sorted(path.name for path in outside.iterdir()), [])

    def test_a_server_outside_keeps_its_rights_and_runs_in_a_folder_of_its_own(self) -> None:
        place = self.place()
        script = place.cwd / "server.py"
        script.write_text("import os, sys; open(sys.argv[1] + '/ran', 'w').write(os.getcwd()); open('kept', 'w').close()\n")
        relative = os.path.relpath(place.outside, place.cwd)
        place.file.write_text(f'[mcp.mine]\ncommand = {quoted([PYTHON, "server.py", f"./{relative}"])}\n')
        place.server.start()
        ran = place.outside / "ran"
        own = place.server.data_dir / "mcp" / "mine"
        eventually(lambda: ran.exists() and (own / "kept").exists(), "the server runs", PATIENT)
        self.assertEqual(ran.read_text(), str(own))
        self.assertEqual(own.stat().st_mode & 0o777, 0o700)

    def test_a_compiled_module_that_was_put_beside_a_script_is_not_read(self) -> None:
        place = self.place()
        ran = place.work / "notes" / "ran"
        code = place.code
        (code / "main.py").write_text("import helper\n")
        (code / "helper.py").write_text(f"open({str(ran)!r}, 'w').write('the source')\n")
        evil = place.work / "evil.py"
        evil.write_text(f"open({str(ran)!r}, 'w').write('what was planted')\n")
        planted = place.work / "planted.pyc"
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(str(evil), str(planted), invalidation_mode=mode)
        cache = importlib.util.cache_from_source(str(code / "helper.py"))
        place.file.write_text(f'[mcp.mine]\ncommand = {quoted([PYTHON, str(code / "main.py")])}\n')
        place.server.start()
        eventually(ran.exists, "the server runs", PATIENT)
        place.bash(f"mkdir -p {os.path.dirname(cache)}; cp {planted} {cache}")
        self.assertTrue(os.path.exists(cache))
        place.server.terminate()
        ran.unlink()
        place.server.start()
        eventually(lambda: ran.exists() and ran.read_text(), "the server runs again", PATIENT)
        self.assertEqual(ran.read_text(), "the source")

    def test_a_worker_cannot_put_other_folders_in_the_place_of_the_data_directorys(self) -> None:
        place = self.place()
        data = place.server.data_dir
        share = place.data
        moves = f"for one in {share} {place.home}/.local; do mv $one {place.home}/old-$$; done"
        plants = f"mkdir -p {data}/trust; echo planted > {data}/trust/planted; echo planted > {data}/operator.token"
        keys = f"mkdir -p {place.home}/.config/patchboard/credentials; echo x > {place.home}/.config/patchboard/credentials/k"
        moves += f"; mv {place.home}/.config {place.home}/old-config"
        script = f"{moves}; {plants}; {keys}; touch {place.home}/tried; sleep 600"
        place.file.write_text(
            f'[[workers]]\nname = "mover"\ncommand = {quoted(["/bin/sh", "-c", script])}\nwritable = [{quoted(str(place.home))}]\n'
        )
        place.server.start()
        token = (data / "operator.token").read_text()
        before = share.stat().st_ino
        if self.namespaces:
            eventually((place.home / "tried").exists, "the worker has tried", PATIENT)
        else:
            # It cannot add to its home either: the way to the data directory is closed.
            eventually(lambda: "mover" in place.server.log(), "the worker has tried", PATIENT)
        place.server.terminate()
        self.assertEqual(share.stat().st_ino, before)
        self.assertEqual((data / "operator.token").read_text(), token)
        self.assertFalse((data / "trust" / "planted").exists())
        self.assertFalse((place.home / ".config/patchboard/credentials/k").exists())


class WithNamespacesTest(Ways, ProgramsTestCase):
    namespaces = True


class WithoutNamespacesTest(Ways, ProgramsTestCase):
    namespaces = False


class MountsTest(ProgramsTestCase):
    """As root a mount succeeds without a namespace too: then it is the machine's."""

    namespaces = False

    def without_namespaces(self) -> str:
        """In a mount namespace that stands for the machine, should this fail."""
        folder = Path(tempfile.mkdtemp(prefix="pb-trust-bin-"))
        self.addCleanup(shutil.rmtree, folder, True)
        program = folder / "patchboard"
        alone = "unshare -m --propagation private"
        program.write_text(f'#!/bin/sh\nexec {alone} {PYTHON} {HERE}/without_namespaces.py {binary()} "$@"\n')
        program.chmod(0o755)
        return str(program)

    def setUp(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("only root can mount without a namespace")
        if subprocess.run(["unshare", "-m", "--propagation", "private", "true"], capture_output=True).returncode != 0:
            self.skipTest("this system gives root no mount namespace to try this in")
        super().setUp()

    def mounts(self, place: Place) -> list[str]:
        lines = Path(f"/proc/{place.server.pid}/mountinfo").read_text().splitlines()
        return sorted(line.split(" ", 4)[4] for line in lines)

    def test_nothing_is_mounted_where_there_is_no_namespace(self) -> None:
        place = self.place()
        ran = [place.work / "worker", place.outside / "server"]
        script = ["/bin/sh", "-c", f"touch {ran[0]}; sleep 600"]
        server = ["/bin/sh", "-c", f"touch {ran[1]}; sleep 600"]
        place.file.write_text("")
        place.server.start()
        before = self.mounts(place)
        place.server.terminate()
        place.file.write_text(
            f'[mcp.mine]\ncommand = {quoted(server)}\n[[workers]]\nname = "pool"\ncommand = {quoted(script)}\n'
            f"writable = [{quoted(str(place.work))}]\n"
        )
        place.server.start()
        place.bash("echo hi > note")
        place.bash("echo again > note")
        eventually(lambda: all(path.exists() for path in ran), "the worker and the server ran", PATIENT)
        self.assertEqual(self.mounts(place), before)
        # The owner can still write.
        place.file.write_text("# mine\n")


class AsNobody(AsAnotherUser):
    cases = ["test_trust_programs.WithNamespacesTest", "test_trust_programs.WithoutNamespacesTest"]


if __name__ == "__main__":
    unittest.main()
