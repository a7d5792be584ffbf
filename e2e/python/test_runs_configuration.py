"""The configuration of a server is not for its tools to change."""

from __future__ import annotations

import unittest

from runs_case import RunsTestCase
from stub_model import Call, Reply, Text


class ConfigurationTest(RunsTestCase):
    """Tools work in the folder the server was started in, which is also where it looks for its configuration."""

    def begin(self, *calls: Call):
        replies = [Reply(call) for call in calls] + [Reply(Text("done"))]
        runs = self.connect(*replies)
        return runs.run("go", working_folder=str(self.server.folder)).of("tool_end")

    def test_no_file_tool_changes_it_or_puts_one_there(self) -> None:
        name = "patchboard.toml"
        ends = self.begin(
            Call("write_file", {"path": name, "content": "x = 1"}),
            Call("edit", {"path": name, "oldString": "", "newString": "x = 1"}),
            Call("create_dir", {"path": name}),
            Call("apply_patch", {"patchText": f"*** Begin Patch\n*** Add File: {name}\n+x = 1\n*** End Patch"}),
        )
        self.assertEqual([end["is_error"] for end in ends], [True] * 4, ends)

    def test_what_a_command_does_to_it_is_undone(self) -> None:
        (end,) = self.begin(Call("bash", {"command": "echo '[mcp.evil]' > patchboard.toml; echo written"}))
        path = self.server.folder / "patchboard.toml"
        self.assertTrue(end["is_error"], end)
        self.assertIn("only its operator changes", end["result"])
        self.assertNotIn("evil", path.read_text() if path.exists() else "")
        (aside,) = self.server.folder.glob("patchboard.toml.by-a-command.*")
        self.assertEqual(aside.read_text(), "[mcp.evil]\n")


if __name__ == "__main__":
    unittest.main()
