"""Configuration files merge: the user's, then the project's, then environment and flags; `--config` stands alone."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from patchboard_server import FOREIGN_SETTINGS, binary
from stub_model import StubModel

TIMEOUT = 60
WORKER = '[[workers]]\nname = "{}"\ncommand = ["true"]\n'


class LayersTest(unittest.TestCase):
    def setUp(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="patchboard-e2e-")).resolve()
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.project = self.home / "project"
        self.users = self.home / ".config" / "patchboard" / "patchboard.toml"
        self.projects = self.project / "patchboard.toml"
        self.project.mkdir()
        self.users.parent.mkdir(parents=True)

    def write_project(self, text: str) -> None:
        """The project's file, looked at and trusted."""
        self.projects.write_text(text)
        self.good("trust", "--yes", "patchboard.toml")

    def command(self, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        foreign = (*FOREIGN_SETTINGS, "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        environment = {name: value for name, value in os.environ.items() if name not in foreign}
        return subprocess.run(
            [binary(), *arguments],
            cwd=self.project,
            env={**environment, "HOME": str(self.home), "NO_COLOR": "1", **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )

    def good(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        done = self.command(*arguments, env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def origins(self, *arguments: str, env: dict[str, str] | None = None) -> str:
        return self.good("config", "show", "--origin", *arguments, env=env)

    def test_the_projects_file_wins_key_by_key_and_each_value_names_its_file_and_line(self) -> None:
        self.users.write_text('drain = "3s"\n[gateway]\nmax_connections = 7\norphan_grace = "9s"\n')
        self.write_project("[gateway]\nmax_connections = 8\n")
        text = self.origins()
        self.assertIn(f'drain = "3s"  # {self.users}:1\n', text)
        self.assertIn(f"# {self.users}:4\n", text)
        self.assertIn("max_connections = 8  # patchboard.toml:2\n", text)
        text = self.origins("--data-dir", "d", env={"PATCHBOARD__GATEWAY__MAX_CONNECTIONS": "9"})
        self.assertIn("max_connections = 9  # env PATCHBOARD__GATEWAY__MAX_CONNECTIONS\n", text)
        self.assertIn(f'data_dir = "{self.project}/d"  # --data-dir\n', text)

    def test_a_named_file_stands_alone(self) -> None:
        self.users.write_text('drain = "3s"\n')
        self.write_project("[gateway]\nmax_connections = 8\n")
        (self.project / "other.toml").write_text("[gateway]\norphan_grace = \"9s\"\n")
        text = self.origins("--config", "other.toml")
        self.assertIn("# other.toml:2\n", text)
        self.assertNotIn("patchboard.toml", text)

    def test_lists_of_named_tables_merge_by_name_and_paths_belong_to_their_file(self) -> None:
        self.users.write_text(WORKER.format("mine") + WORKER.format("both"))
        self.write_project('[[workers]]\nname = "both"\ncount = 2\n' + WORKER.format("theirs"))
        text = self.good("config", "show")
        names = [line for line in text.splitlines() if line.startswith("name = ")]
        self.assertEqual(names, ['name = "mine"', 'name = "both"', 'name = "theirs"'])
        folders = [line for line in text.splitlines() if line.startswith("working_folder = ")]
        users, projects = f'working_folder = "{self.users.parent}"', f'working_folder = "{self.project}"'
        # The first is that of runs.
        self.assertEqual(folders[1:], [users, users, projects])

    def test_what_is_inherited_can_be_switched_off(self) -> None:
        self.users.write_text(WORKER.format("mine") + '[mcp.files]\ncommand = ["files"]\n')
        self.write_project('[[workers]]\nname = "mine"\nenabled = false\n[mcp.files]\nenabled = false\n')
        text = self.origins()
        self.assertNotIn("[[workers]]", text)
        self.assertNotIn("[mcp.files]", text)
        self.assertIn("# workers `mine` is switched off: patchboard.toml:3\n", text)
        self.assertIn("# mcp `files` is switched off: patchboard.toml:5\n", text)

    def test_problems_name_the_file_they_stand_in(self) -> None:
        self.users.write_text("[gateway]\nlisen = 1\n")
        self.write_project("[runs]\nlisen = 1\n")
        done = self.command("config", "check")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn(f"gateway.lisen ({self.users}:2): unknown key", done.stdout)
        self.assertIn("runs.lisen (patchboard.toml:2): unknown key", done.stdout)
        self.assertIn(f"{self.users}, {self.projects}: 2 errors", done.stdout)

    def ask(self, model: StubModel, env: dict[str, str] | None = None) -> tuple[dict[str, str], str]:
        """What headers the model saw, and what was said beside the answer."""
        done = self.command("chat", "-m", "hi", env=env)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return model.requests[-1].headers, done.stderr

    def provider(self, model: StubModel, more: str = "") -> str:
        return f'[providers.openai]\nkind = "openai"\nbase_url = "{model.base_url}"\nmodel = "stub-model"\n{more}'

    def test_no_key_of_the_user_goes_to_an_address_of_a_project(self) -> None:
        keys = self.users.parent / "credentials"
        keys.mkdir(mode=0o700)
        (keys / "openai.key").write_text("canary-stored\n")
        (keys / "openai.key").chmod(0o600)
        secret = {"OPENAI_API_KEY": "canary-variable", "ANTHROPIC_API_KEY": "canary-other", "MINE": "canary-mine"}
        self.users.write_text('[providers.openai]\nkind = "openai"\napi_key = "env:MINE"\n')
        for more in ("", 'api_key = "env:OPENAI_API_KEY"\n', f'api_key = "file:{keys}/openai.key"\n'):
            with self.subTest(more), StubModel() as model:
                self.write_project(self.provider(model, more))
                headers, said = self.ask(model, secret)
                self.assertNotIn("authorization", headers)
                self.assertNotIn("canary", str(headers))
                self.assertIn("PB0125", said)
                self.assertIn(f"write [providers.openai] into {self.users} instead", said)

    def test_a_stored_key_goes_to_an_address_of_the_user(self) -> None:
        keys = self.users.parent / "credentials"
        keys.mkdir(mode=0o700)
        (keys / "openai.key").write_text("canary-stored\n")
        (keys / "openai.key").chmod(0o600)
        with StubModel() as model:
            self.users.write_text(self.provider(model))
            headers, said = self.ask(model)
            self.assertEqual(headers["authorization"], "Bearer canary-stored")
            self.assertNotIn("PB0125", said)
            # And to one that the environment sets in place of the project's.
            self.users.unlink()
            self.write_project('[providers.openai]\nkind = "openai"\nbase_url = "http://127.0.0.1:9"\n')
            headers, _ = self.ask(model, {"PATCHBOARD__PROVIDERS__OPENAI__BASE_URL": model.base_url})
            self.assertEqual(headers["authorization"], "Bearer canary-stored")


if __name__ == "__main__":
    unittest.main()
