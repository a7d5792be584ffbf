"""`run` and `tools call` work in the folder where they are typed: the operator opens it for that one run, which keeps it
through a crash. Whole home folders are refused, and nobody else can open anything."""

from __future__ import annotations

import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from patchboard_server import binary
from stub_model import Call, Hold, Reply, Text
from test_cli import TIMEOUT
from test_run_command import RunCase


class CallerFolderTest(RunCase):
    def setUp(self) -> None:
        super().setUp()
        away = tempfile.TemporaryDirectory(prefix="patchboard-project-")
        self.addCleanup(away.cleanup)
        self.away = Path(away.name).resolve()
        (self.away / "note.txt").write_text("a note far from the server")

    def typed(self, folder: Path | str, *arguments: str, **more: str) -> subprocess.CompletedProcess:
        """A command typed in another folder than the server's."""
        home = self.server.folder / "home"
        home.mkdir(exist_ok=True)
        return subprocess.run(
            [binary(), *arguments],
            cwd=folder,
            env={**self.server.environment(), "HOME": str(home), **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def test_tools_of_a_run_work_where_it_is_typed_and_only_they_do(self) -> None:
        write = Call("write_file", {"path": "answer.txt", "content": "42"})
        self.serve(Reply(Call("read", {"path": "note.txt"})), Reply(write), Reply(Text("done")))
        done = self.typed(self.away, "run", "-m", "read it", *self.data)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertIn("a note far from the server", str(self.model.requests[1].messages))
        self.assertEqual((self.away / "answer.txt").read_text(), "42")
        # The same folder, asked for without the operator's token of the data directory.
        address = f"ws://{self.server.address('runs')}/"
        named = self.typed("/", "run", "-m", "hi", "--url", address, "--working-folder", str(self.away))
        self.assertEqual(named.returncode, 1, named.stdout)
        for expected in ("outside the allowed roots", "runs.allowed_roots", f'allowed_roots = [".", "{self.away}"]'):
            self.assertIn(expected, named.stderr)
        unnamed = self.typed(self.away, "run", "-m", "hi", "--url", address)
        self.assertEqual((unnamed.returncode, unnamed.stdout), (0, "echo: hi\n"), unnamed.stderr)

    def test_folders_that_hold_too_much_are_refused_with_what_to_type(self) -> None:
        self.serve()
        holds_data = self.server.folder.parent
        for folder, reason in (("/", "whole file system"), (holds_data, "contains the data directory")):
            done = self.typed(folder, "run", "-m", "hi", *self.data)
            self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
            self.assertIn(reason, done.stderr)
            self.assertIn("--working-folder DIR", done.stderr)
        home = self.typed(self.away, "run", "-m", "hi", *self.data, HOME=str(self.away))
        self.assertEqual((home.returncode, home.stdout), (0, "echo: hi\n"), "the server's home counts, not the caller's")
        done = self.typed("/", "run", "-m", "hi", "-w", str(self.away), *self.data)
        self.assertEqual((done.returncode, done.stdout), (0, "echo: hi\n"), done.stderr)

    def test_tool_calls_fall_back_to_the_server_s_folder_and_say_so(self) -> None:
        self.serve()
        (self.server.folder / "mine.txt").write_text("of the server")
        read = ("tools", "call", "read", *self.data)
        there = self.typed(self.away, *read, '{"path": "note.txt"}')
        self.assertEqual((there.returncode, there.stderr), (0, ""), there.stderr)
        self.assertIn("a note far from the server", there.stdout)
        root = self.typed("/", *read, '{"path": "mine.txt"}')
        self.assertEqual(root.returncode, 0, root.stderr)
        self.assertIn("of the server", root.stdout)
        self.assertIn("the folder of the server", root.stderr)

    def test_a_chat_works_where_it_is_typed_or_says_that_it_works_with_the_server(self) -> None:
        self.serve(Reply(Call("read", {"path": "note.txt"})), Reply(Text("done")))
        there = self.typed(self.away, "chat", "-m", "read it", *self.data)
        self.assertEqual(there.returncode, 0, there.stderr)
        self.assertIn("a note far from the server", str(self.model.requests[1].messages))
        root = self.typed("/", "chat", "-m", "hi", *self.data)
        self.assertEqual((root.returncode, root.stdout), (0, "echo: hi\n"), root.stderr)
        self.assertIn("tools work in the folder of the server", root.stderr)
        named = self.typed("/", "chat", "-m", "hi", "-w", "/", *self.data)
        self.assertEqual((named.returncode, named.stdout), (1, ""), named.stderr)
        self.assertIn("is the whole file system", named.stderr)

    def test_a_run_that_is_resumed_still_works_there(self) -> None:
        held = threading.Event()
        self.addCleanup(held.set)
        write = Call("write_file", {"path": "late.txt", "content": "after the crash"})
        self.serve(Reply(Hold(held)), Reply(write), Reply(Text("done")))
        begun = self.typed(self.away, "run", "-m", "go", "--detach", "--id", "far", *self.data)
        self.assertEqual(begun.returncode, 0, begun.stderr)
        self.model.wait_for_requests(1)
        self.server.kill()
        held.set()
        self.server.start()
        joined = self.typed("/", "attach", "far", *self.data)
        self.assertEqual((joined.returncode, joined.stdout.strip()), (0, "done"), joined.stderr)
        self.assertEqual((self.away / "late.txt").read_text(), "after the crash")

    def test_a_command_with_a_server_of_its_own_does_not_open_a_home(self) -> None:
        self.serve()
        self.server.terminate()
        done = self.typed(self.away, "run", "-m", "hi", *self.data, *self.config, HOME=str(self.away))
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("whole home folder", done.stderr)
        self.assertIn("--working-folder DIR", done.stderr)
        done = self.typed(self.away, "run", "-m", "hi", *self.data, *self.config)
        self.assertEqual((done.returncode, done.stdout), (0, "echo: hi\n"), done.stderr)

    def test_naming_it_does_not_open_a_home_either_nor_does_a_chat(self) -> None:
        read = Call("read", {"path": "../note.txt"})
        self.serve(Reply(read), Reply(Text("done")))
        self.server.terminate()
        common = (*self.data, *self.config)
        project = self.away / "project"
        project.mkdir()
        home = {"HOME": str(self.away)}
        for folder, command in (
            (self.away, ("run", "-w", ".")),
            (project, ("run", "-w", str(self.away))),
            ("/", ("run", "-w", "/")),
            (project, ("run", "-w", str(self.away.parent))),
            (self.away, ("chat",)),
            ("/", ("chat",)),
            (project, ("chat", "-w", "..")),
        ):
            done = self.typed(folder, *command, "-m", "hi", *common, **home)
            self.assertEqual((done.returncode, done.stdout), (2, ""), (command, done.stderr))
            self.assertIn("--working-folder DIR", done.stderr)
        self.assertEqual(self.model.requests, [])
        # What is named is all that is open, not where the command was typed.
        done = self.typed(self.away, "run", "-w", "project", "-m", "read it", *common, **home)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        self.assertNotIn("a note far from the server", str(self.model.requests[1].messages))
        # Nor does a configured working folder open the one where the command is typed.
        alone = self.away / "alone.toml"
        alone.write_text(self.server.config_file.read_text() + '\n[runs]\nworking_folder = "project"\n')
        done = self.typed(self.away, "chat", "-m", "hi", *self.data, "--config", str(alone), **home)
        self.assertIn("tools work in the folder of the server", done.stderr)


if __name__ == "__main__":
    unittest.main()
