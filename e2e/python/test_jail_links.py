"""A hard link does not open what is protected, wherever it lies.

`test_jail.AsAnotherUser` runs this once more as an ordinary user.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

from gateway_client import eventually
from jail_case import HERE, PACKAGES, JailTestCase, quoted

KEY = "KEY-of-many-characters-that-nobody-may-read"


class LinksTest(JailTestCase):
    def setUp(self) -> None:
        super().setUp()
        # Beside the server's folder, on the same file system.
        self.folder = Path(tempfile.mkdtemp(prefix="pb-links-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.key = self.folder / "key"
        self.key.write_text(KEY)

    def start_with_key(self, more: str = "") -> None:
        self.start(more, before=f'[bridge]\ntoken = "file:{self.key}"\n')

    def test_a_command_does_not_read_a_protected_file_by_another_name(self) -> None:
        self.start_with_key()
        token = (self.server.data_dir / "operator.token").read_text()
        self.bash("mkdir a && echo mine > a/mine")
        os.link(self.key, self.work / "a" / "key")
        os.link(self.server.data_dir / "operator.token", self.work / "token")
        end = self.bash("cat token a/key; cp token copy; ln a/key again; cat copy again; mv a b; cat b/key; echo over")
        self.assertIn("over", end["result"])
        for secret in (KEY, token.strip()):
            self.assertNotIn(secret, end["result"])
            for file in self.work.rglob("*"):
                if file.name not in ("token", "key") and file.is_file():
                    self.assertNotIn(secret, file.read_text(), file)
        # What lies beside them is as usual.
        self.assertIn("mine", self.bash("cat a/mine b/mine 2> /dev/null")["result"])

    def test_nor_does_a_file_tool(self) -> None:
        self.start_with_key()
        os.link(self.key, self.work / "key")
        os.link(self.server.data_dir / "operator.token", self.work / "token")
        token = (self.server.data_dir / "operator.token").read_text().strip()
        for name in ("key", "token"):
            end = self.call("read", {"path": name})
            self.assertTrue(end["is_error"], end)
            self.assertNotIn(KEY, end["result"])
            self.assertNotIn(token, end["result"])
        self.assertNotIn(KEY, self.call("grep", {"pattern": "KEY-of"})["result"])

    def test_a_name_that_cannot_be_found_keeps_commands_from_starting(self) -> None:
        self.start_with_key()
        os.link(self.key, self.folder / "backup")
        end = self.bash("echo started")
        self.assertTrue(end["is_error"], end)
        self.assertIn("2 names (hard links) of which only 1", end["result"])
        self.assertIn("cp -p", end["result"])
        (self.folder / "backup").unlink()
        self.assertIn("started", self.bash("echo started")["result"])

    def test_an_mcp_server_is_not_started_beside_an_unknown_name(self) -> None:
        os.link(self.key, self.folder / "backup")
        command = quoted([sys.executable, str(HERE / "jail_mcp.py")])
        env = f'env = {{ PYTHONPATH = "{os.pathsep.join(PACKAGES)}" }}'
        self.start_with_key(f"[mcp.attacker]\ncommand = {command}\n{env}\n")
        eventually(lambda: "names (hard links) of which only 1" in self.server.log(), "the log says why", 120)


if __name__ == "__main__":
    unittest.main()
