"""Ways of planting that need more than one command, another project, an owner who does something meanwhile, or no file at all.

Mixed into the classes of `test_trust.py`, which say what the kernel gives.
"""

from __future__ import annotations

from gateway_client import eventually
from trust_case import ALLOWED, DENIED, NAMED, PROJECTS, TIMEOUT, TRUSTED, Owner

# In a folder to which commands may add files, also where the user's configuration lies in the working folder.
WAIT = "while [ ! -e notes/go ]; do sleep 0.05; done"


class Turns:
    # A second command, after which nothing may have become trusted.

    def link(self, owner: Owner) -> str:
        """Shell that puts a link to a planted file where the configuration is, or in a new folder in its place."""
        file, folder, evil = owner.file, owner.folder, owner.evil
        linked = f"ln -sfn $PWD/z/patchboard.toml {file}"
        moved = f"{{ mv {folder} {folder}.old; mkdir -p {folder}; {linked}; }}"
        return f"mkdir -p z; cp {evil} z/patchboard.toml; {linked}; grep -q evil {file} || {moved}; true"

    def planted_by_one_and_seen_by_another(self, kind: str, config: str | None) -> None:
        owner = self.serve(kind, config=config)
        owner.bash(self.link(owner))
        if config is None or not self.namespaces:
            self.assertTrue(owner.is_planted)
        for _ in range(2):
            owner.bash("true")
        self.assert_not_obeyed(owner, trusted=None if config is None else DENIED)

    def test_a_link_to_the_named_file_is_not_trusted_by_a_second_command(self) -> None:
        self.planted_by_one_and_seen_by_another(NAMED, TRUSTED)

    def test_a_link_to_the_projects_file_is_not_trusted_by_a_second_command(self) -> None:
        self.planted_by_one_and_seen_by_another(PROJECTS, TRUSTED)

    def test_a_link_where_there_was_no_file_is_not_trusted_by_a_second_command(self) -> None:
        self.planted_by_one_and_seen_by_another(PROJECTS, None)

    def test_a_plugin_that_is_moved_into_place_is_not_trusted_by_a_second_command(self) -> None:
        owner = self.owner(NAMED, config=None)
        plugin = owner.work / "p.wasm"
        plugin.write_bytes(b"no component")
        owner.file.write_text(f'{TRUSTED}[[plugins]]\nname = "p"\npath = "{plugin}"\n')
        owner.server.start()
        owner.bash("mkdir z; echo evil > z/p.wasm; ln -s $PWD/z/p.wasm mine; true")
        # File tools refuse configuration by name, and not this.
        owner.call("move_file", {"source": "mine", "target": "p.wasm"})
        owner.call("write_file", {"path": "p.wasm", "content": "evil"})
        self.assertIn(b"evil", plugin.read_bytes(), "it could be planted")
        owner.bash("true")
        owner.server.terminate()
        before = len(owner.server.log())
        owner.server.start()
        self.assertIn(f"patchboard trust {plugin}", owner.server.log()[before:])

    # Another configuration that was trusted once.

    def test_the_file_of_another_project_cannot_be_changed(self) -> None:
        owner = self.owner(NAMED)
        other = owner.work / "app"
        other.mkdir()
        file = other / "patchboard.toml"
        file.write_text(TRUSTED)
        owner.elsewhere(other, "trust", "--yes")
        self.assertIn(DENIED, owner.elsewhere(other, "config", "show"))
        owner.server.start()
        planted = f"cp {owner.evil} {file}; cp {owner.evil} e1; mv -f e1 {file}; true"
        owner.bash(planted)
        if self.namespaces:
            self.assertEqual(file.read_text(), TRUSTED)
        owner.bash(f"grep -q evil {file} || {{ mv app app.old; mkdir app; {planted}; }}; true")
        owner.bash("true")
        owner.server.terminate()
        shown = owner.elsewhere(other, "config", "show")
        self.assertNotIn("evil", shown)
        self.assertNotIn(ALLOWED, shown)

    # What its owner does while a command runs.

    def waiting(self, owner: Owner, command: str):
        """A command that waits until its owner has done something."""
        runs = owner.begin_bash(f"touch notes/waiting; {WAIT}; {command}; touch notes/planted; while [ ! -e notes/end ]; do sleep 0.05; done")
        self.addCleanup(runs.close)
        eventually((owner.work / "notes/waiting").exists, "the command runs", TIMEOUT)
        return runs

    def go_on(self, owner: Owner) -> None:
        (owner.work / "notes/go").touch()
        eventually((owner.work / "notes/planted").exists, "the command has planted", TIMEOUT)

    def finish(self, owner: Owner, runs) -> None:
        (owner.work / "notes/end").touch()
        runs.take(lambda frame: frame["type"] in ("run_end", "error"), TIMEOUT)

    def replaced_by_its_owner(self, kind: str, killed: bool) -> None:
        owner = self.serve(kind)
        runs = self.waiting(owner, f"cp {owner.evil} {owner.file}")
        new = owner.root / "new.toml"
        new.write_text("# the owner's\n" + TRUSTED)
        new.rename(owner.file)
        self.go_on(owner)
        self.assertTrue(owner.is_planted, "the kernel has removed the mount")
        self.assert_others_do_not_obey(owner)
        if killed:
            owner.server.kill()
        else:
            self.finish(owner, runs)
        self.assert_not_obeyed(owner)

    def test_a_file_that_its_owner_replaces_while_a_command_runs_is_not_obeyed(self) -> None:
        # The folder of the user's file leads to keys, so a command can add nothing there.
        for kind in (NAMED, PROJECTS):
            with self.subTest(kind):
                self.replaced_by_its_owner(kind, killed=False)

    def test_nor_after_the_server_was_killed_meanwhile(self) -> None:
        for kind in (NAMED, PROJECTS):
            with self.subTest(kind):
                self.replaced_by_its_owner(kind, killed=True)

    def test_a_project_that_is_trusted_while_a_command_runs_stays_what_was_trusted(self) -> None:
        owner = self.owner(PROJECTS, config=None)
        owner.file.write_text(TRUSTED)
        owner.server.start()
        runs = self.waiting(owner, owner.plant())
        owner.trust()
        self.go_on(owner)
        self.assert_others_do_not_obey(owner)
        self.finish(owner, runs)
        self.assert_not_obeyed(owner)

    # A link between two others.

    def test_a_link_in_the_middle_that_is_replaced_does_not_count(self) -> None:
        owner = self.owner(NAMED)
        owner.file = owner.root / "mine" / "patchboard.toml"
        owner.file.parent.mkdir()
        middle, real = owner.work / "mid.toml", owner.outside / "real.toml"
        real.write_text(TRUSTED)
        middle.symlink_to(real)
        owner.file.symlink_to(middle)
        owner.server.start()
        owner.bash(f"rm -f {middle}; cp {owner.evil} {middle}; true")
        self.assertTrue(owner.is_planted)
        owner.bash("true")
        self.assert_not_obeyed(owner)

    # What is no configuration, where there was none.

    def no_configuration(self, command: str) -> None:
        owner = self.serve(PROJECTS, config=None)
        made = owner.bash(f"cd {owner.folder} && {command}")
        self.assertTrue(owner.file.is_symlink() or owner.file.exists(), made)
        if not owner.file.is_symlink():
            # Until its owner takes a link to itself away, or starts the server again, tools are closed.
            owner.bash("true")
        owner.command("config", "show", code=0)
        owner.server.terminate()
        before = len(owner.server.log())
        owner.server.start()
        self.assert_names_trust(owner, owner.server.log()[before:], "the log")
        owner.bash("true")
        owner.command("doctor")
        owner.command("trust", "--yes")

    def test_a_pipe_does_not_hold_up_the_server(self) -> None:
        self.no_configuration("mkfifo patchboard.toml")

    def test_a_folder_does_not_stop_the_server(self) -> None:
        self.no_configuration("mkdir patchboard.toml")

    def test_bytes_do_not_stop_the_server(self) -> None:
        self.no_configuration(r"printf '\377\376\000\001\377\200' > patchboard.toml")

    def test_a_large_file_does_not_stop_the_server(self) -> None:
        self.no_configuration("truncate -s 2M patchboard.toml")

    def test_a_link_to_itself_does_not_stop_the_server(self) -> None:
        self.no_configuration("ln -s patchboard.toml patchboard.toml")
