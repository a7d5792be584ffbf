"""`patchboard plugins`: list, check, new, load, unload and approve; for whoever writes plugins and whoever runs
them."""

# begins early: builds a new plugin
from __future__ import annotations

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from bridge_case import ALLOW
from plugin_support import REPOSITORY, Plugin, PluginTestCase, component, in_time, json_values, sha256

TARGET = "wasm32-wasip2"
BUILD_TIMEOUT = 400
# Kept between runs, so that only the new project itself is built and not what it depends on.
BUILD_FOLDER = REPOSITORY / "target" / "e2e" / "new-plugin"
CANNOT_BUILD = (
    "can't find crate for `core`",
    "target may not be installed",
    "failed to download",
    "Could not resolve host",
)


class ListTest(PluginTestCase):
    def test_what_is_there(self) -> None:
        gateway = self.serve(Plugin("echo"), Plugin("notes", grants=("store:notes",)), Plugin("bad", data=b"oops"))
        text = self.command("plugins", "list").stdout
        for word in ("echo", "notes", "store:notes", "bad", "ready", "refused", "shout", "note_add"):
            self.assertIn(word, text)
        rows = json_values(self.command("plugins", "list", "--json").stdout)
        self.assertEqual(
            sorted(rows, key=lambda row: row["name"]),
            sorted(gateway.result("plugin.list"), key=lambda row: row["name"]),
        )

    def test_without_a_server_it_says_so_with_a_hint(self) -> None:
        self.serve()
        self.server.terminate()
        for command in (["list"], ["load", "x"], ["unload", "x"], ["approve", "x"]):
            with self.subTest(command):
                done = self.command("plugins", *command, code=None)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn("hint", done.stderr)


class ManageTest(PluginTestCase):
    def test_load_unload_and_approve(self) -> None:
        gateway = self.serve(Plugin("echo"), Plugin("tool", data=component("http-get")))
        self.assertIn("echo", self.command("plugins", "unload", "echo").stdout)
        self.assertNotIn("echo", self.tools(gateway))
        self.assertIn("echo", self.command("plugins", "load", "echo").stdout)
        self.assertEqual(self.good("echo", gateway=gateway, text="x"), "x")
        self.put("tool", component("notes"))
        self.becomes_waiting(gateway, "tool")
        self.assertIn("note_add", self.command("plugins", "list").stdout, "what it asks for is shown")
        self.command("plugins", "approve", "tool")
        self.becomes(gateway, "tool", state="ready", sha256=sha256(component("notes")))

    def test_what_cannot_be_done_is_told(self) -> None:
        self.serve(Plugin("echo"))
        for command in ("load", "unload", "approve"):
            with self.subTest(command):
                done = self.command("plugins", command, "nobody", code=1)
                self.assertIn("nobody", done.stderr)
                self.assertEqual(done.stdout, "")
        outside = self.server.folder / "outside.wasm"
        outside.write_bytes(component("notes"))
        self.assertNotEqual(self.command("plugins", "load", str(outside), code=None).returncode, 0)

    def becomes_waiting(self, gateway, name: str) -> None:
        in_time(lambda: self.plugins(gateway)[name]["waiting_for_approval"], f"{name} waits for approval")


class CheckTest(PluginTestCase):
    def check_file(self, data: bytes, code: int) -> subprocess.CompletedProcess:
        file = self.server.folder / "file.wasm"
        file.write_bytes(data)
        return self.command("plugins", "check", str(file), code=code, data=False)

    def setUp(self) -> None:
        self.server = self.prepare("")

    def test_good_ones(self) -> None:
        for name, words in (
            ("echo", ("echo", "shout", "count_calls", sha256(component("echo")))),
            ("notes", ("note_add", "note_list", "store")),
            ("http-get", ("page_title", "http")),
            ("telegram", ("channel", "http")),
            ("slack", ("channel",)),
            ("webhook-json", ("channel",)),
        ):
            with self.subTest(name):
                done = self.check_file(component(name), 0)
                for word in words:
                    self.assertIn(word, done.stdout)
                self.assertEqual(done.stderr, "")

    def test_bad_ones(self) -> None:
        echo = component("echo")
        for name, data, words in (
            ("text", b"this is no plugin", ("not WebAssembly",)),
            ("empty", b"", ()),
            ("module", b"\0asm\x01\0\0\0", ("component",)),
            ("half", echo[: len(echo) // 2], ()),
            ("nothing", b"\0asm\x0d\0\x01\0", ()),
        ):
            with self.subTest(name):
                done = self.check_file(data, 2)
                for word in words:
                    self.assertIn(word, done.stderr)
                self.assertTrue(done.stderr.startswith("error"), done.stderr)

    def test_one_that_describes_itself_badly(self) -> None:
        for kind in ("bad-schema", "bad-name", "dup", "panic", "many", "huge", "loop"):
            with self.subTest(kind):
                done = self.check_file(component(f"hostile-describe-{kind}"), 2)
                self.assertTrue(done.stderr)
                print(f"check {kind}: {done.stderr.splitlines()[0]}", flush=True)

    def test_a_file_that_is_not_there(self) -> None:
        done = self.command("plugins", "check", "nowhere.wasm", code=None, data=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nowhere.wasm", done.stderr)

    def test_it_leaves_nothing_behind(self) -> None:
        self.check_file(component("echo"), 0)
        left = sorted(path.name for path in self.server.folder.iterdir())
        self.assertEqual(left, ["file.wasm", "home", "patchboard.toml", "plugins"])
        self.assertEqual(list((self.server.folder / "home").iterdir()), [])


class NewTest(PluginTestCase):
    def test_a_new_project_builds_and_its_tool_can_be_called(self) -> None:
        self.serve(more='[wasm]\nfolder = "drop"\n' + ALLOW)
        (self.server.folder / "drop").mkdir(exist_ok=True)
        made = self.command("plugins", "new", "greeter", data=False)
        self.assertIn("cargo build", made.stdout)
        project = self.server.folder / "greeter"
        self.assertTrue((project / "Cargo.toml").exists(), list(project.rglob("*")))
        self.assertTrue((project / "README.md").exists())
        self.assertTrue(list(project.rglob("*.wit")), "the world is with it")
        built = build(project)
        checked = self.command("plugins", "check", str(built), data=False)
        shutil.copy(built, self.server.folder / "drop" / "greeter.wasm")
        gateway = self.another()
        found = self.settled(gateway, "greeter", "ready")
        self.assertTrue(found["tools"])
        for tool in found["tools"]:
            self.assertIn(tool, checked.stdout)
        tool = self.tools(gateway)[found["tools"][0]]
        arguments = {name: sample(schema) for name, schema in tool["input_schema"].get("properties", {}).items()}
        content, is_error = self.call(tool["name"], gateway, **arguments)
        self.assertFalse(is_error, content)
        print(f"a new plugin of {built.stat().st_size} bytes says: {content[:200]}", flush=True)

    def test_what_is_there_is_never_overwritten(self) -> None:
        self.server = self.prepare("")
        self.command("plugins", "new", "greeter", data=False)
        marker = self.server.folder / "greeter" / "Cargo.toml"
        marker.write_text("mine")
        done = self.command("plugins", "new", "greeter", code=None, data=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(marker.read_text(), "mine")

    def test_names_that_cannot_be(self) -> None:
        self.server = self.prepare("")
        for name in ("", "../up", "a/b", "a b", "-x", "ü", "x" * 100, "1up"):
            with self.subTest(name):
                done = self.command("plugins", "new", "--", name, code=None, data=False)
                self.assertNotEqual(done.returncode, 0, done.stdout)
        left = sorted(path.name for path in self.server.folder.iterdir())
        self.assertEqual(left, ["home", "patchboard.toml", "plugins"])
        self.assertFalse((self.server.folder.parent / "up").exists())


def sample(schema: dict) -> object:
    """A value that fits a simple schema."""
    return {"string": "Ada", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}[schema["type"]]


def build(project: Path) -> Path:
    """Builds a plugin; where the target or its packages cannot be had, the test is skipped and says so."""
    cargo = shutil.which("cargo")
    if cargo is None:
        raise unittest.SkipTest("cargo is not there")
    subprocess.run(["rustup", "target", "add", TARGET], capture_output=True, timeout=BUILD_TIMEOUT)
    for older in list(BUILD_FOLDER.rglob(f"*{project.name}*")):
        shutil.rmtree(older) if older.is_dir() else older.unlink(missing_ok=True)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BUILD_FOLDER), "CARGO_TERM_COLOR": "never"}
    done = subprocess.run(
        [cargo, "build", "--release", "--target", TARGET],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT,
    )
    for reason in CANNOT_BUILD:
        if reason in done.stderr:
            raise unittest.SkipTest(f"the plugin cannot be built here: {reason}")
    assert done.returncode == 0, done.stderr
    (built,) = (BUILD_FOLDER / TARGET / "release").glob("*.wasm")
    return built


if __name__ == "__main__":
    unittest.main()
