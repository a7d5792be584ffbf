"""The configuration of a server is not for its tools to change."""

from __future__ import annotations

import subprocess
import unittest

from patchboard_server import binary
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

    def test_what_a_command_does_to_it_counts_for_nothing(self) -> None:
        planted = "[mcp.evil]\ncommand = ['true']\n"
        (end,) = self.begin(Call("bash", {"command": f'printf "{planted}" > patchboard.toml; echo ended'}))
        self.assertIn("ended", end["result"])
        self.server.restart()
        show = [binary(), "config", "show", "--config", str(self.server.config_file)]
        shown = subprocess.run(
            [*show, "--data-dir", str(self.server.data_dir)],
            cwd=self.server.folder,
            env=self.server.environment(),
            capture_output=True,
            text=True,
        )
        self.assertIn("stub-model", shown.stdout, shown.stderr)
        self.assertNotIn("evil", shown.stdout)


if __name__ == "__main__":
    unittest.main()
