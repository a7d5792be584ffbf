"""What a command of an agent does to the configuration counts for nothing until its owner has trusted it.

Each way in which the first build was led to run a planted `[mcp.evil]` is a test, with and without namespaces, and as root
and as an ordinary user: `AsNobody` runs the same once more.
"""

from __future__ import annotations

import unittest

from gateway_client import eventually
from plugin_suite import several_at_once
from trust_case import (
    ALLOWED,
    DENIED,
    KINDS,
    NAMED,
    PROJECTS,
    TIMEOUT,
    TRUSTED,
    USERS,
    AsAnotherUser,
    Owner,
    TrustTestCase,
)
from trust_turns import WAIT, Turns


class Ways:
    """The ways of planting; `namespaces` of the class says what the server's kernel gives."""

    # The walls that the tests are about.

    def test_doctor_says_whether_there_are_namespaces(self) -> None:
        said = self.owner(NAMED).command("doctor")
        missing = "this system gives this user no namespaces"
        (self.assertNotIn if self.namespaces else self.assertIn)(missing, said)

    def test_what_exists_is_read_only_to_a_command(self) -> None:
        if not self.namespaces:
            self.skipTest("the wall of read-only mounts is missing without namespaces")
        for kind in KINDS:
            with self.subTest(kind):
                owner = self.serve(kind)
                owner.bash(owner.plant())
                self.assertEqual(owner.file.read_text(), TRUSTED)

    # Plainly.

    def plainly(self, kind: str) -> None:
        owner = self.serve(kind)
        owner.bash(owner.plant())
        if not self.namespaces:
            self.assertTrue(owner.is_planted, "nothing keeps it from being written")
        self.assert_not_obeyed(owner)

    def test_what_is_written_over_the_named_file_does_not_count(self) -> None:
        self.plainly(NAMED)

    def test_what_is_written_over_the_users_file_does_not_count(self) -> None:
        self.plainly(USERS)

    def test_what_is_written_over_the_projects_file_does_not_count(self) -> None:
        self.plainly(PROJECTS)

    def test_doctor_names_the_file_and_the_command(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                owner = self.serve(kind)
                folder = owner.folder
                owner.bash(f"mv {folder} {folder}.old; mkdir -p {folder}; cp {owner.evil} {owner.file}; true")
                if owner.is_planted:
                    self.assert_names_trust(owner, owner.command("doctor"), "doctor")

    # (a) All names that something could be put aside under are taken.

    def test_taking_thousands_of_names_beside_it_does_not_help(self) -> None:
        owner = self.serve(NAMED)
        names = f"{owner.file}.by-a-command."
        taken = owner.bash(f"seq 0 4000 | sed 's|^|{names}|' | xargs touch; echo x > {names}00; {owner.plant()}")
        self.assertFalse(taken["is_error"], taken)
        self.assert_not_obeyed(owner)
        # Nor is anything put aside any more.
        self.assertEqual(len(list(owner.folder.glob("*.by-a-command.*"))), 4002)

    # (b) Another folder in the place of the configuration's.

    def another_folder(self, kind: str) -> None:
        owner = self.serve(kind)
        folder = owner.folder
        owner.bash(f"mv {folder} {folder}.old; mkdir -p {folder}; cp {owner.evil} {owner.file}; true")
        if kind == USERS:
            top = owner.work / ".config"
            owner.bash(f"mv {top} {top}.old; mkdir -p {folder}; cp {owner.evil} {owner.file}; true")
        self.assert_not_obeyed(owner)

    def test_another_folder_in_the_place_of_the_named_files_does_not_count(self) -> None:
        self.another_folder(NAMED)

    def test_another_folder_in_the_place_of_the_users_does_not_count(self) -> None:
        self.another_folder(USERS)

    def test_another_folder_in_the_place_of_the_projects_does_not_count(self) -> None:
        self.another_folder(PROJECTS)

    def test_a_link_in_the_place_of_the_folder_does_not_count(self) -> None:
        owner = self.serve(USERS)
        top = owner.work / ".config"
        other = owner.work / "other"
        made = f"mkdir -p {other}/patchboard; cp {owner.evil} {other}/patchboard/patchboard.toml"
        owner.bash(f"{made}; mv {top} {top}.old; ln -s {other} {top}; true")
        self.assert_not_obeyed(owner)

    # (c) A file that is a link.

    def linked(self, kind: str, command: str) -> None:
        owner = self.serve(kind, linked=True)
        names = {"file": owner.file, "target": owner.target, "evil": owner.evil, "folder": owner.target.parent}
        owner.bash(command.format(**names))
        self.assert_not_obeyed(owner)

    def test_a_link_that_is_replaced_does_not_count(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                self.linked(kind, "cp {evil} mine; ln -sfn $PWD/mine {file}; rm -f {file}; ln -s $PWD/mine {file}; true")

    def test_what_is_written_to_the_target_of_a_link_does_not_count(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                self.linked(kind, "cp {evil} {target}; cp {evil} mine; mv -f mine {target}; true")

    def test_another_folder_in_the_place_of_the_targets_does_not_count(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                self.linked(kind, "mv {folder} {folder}.old; mkdir {folder}; cp {evil} {target}; true")

    def test_what_appears_at_the_end_of_a_link_that_led_nowhere_does_not_count(self) -> None:
        for kind in (USERS, PROJECTS):
            with self.subTest(kind):
                owner = self.serve(kind, config=None, linked=True)
                owner.bash(f"cp {owner.evil} {owner.target}; true")
                self.assert_not_obeyed(owner, trusted=None)

    # (d) The server is killed.

    def killed(self, kind: str, finished: bool) -> None:
        owner = self.serve(kind)
        moved = f"mv {owner.folder} {owner.folder}.old; mkdir -p {owner.folder}; cp {owner.evil} {owner.file}"
        command = f"{owner.plant()}; grep -q evil {owner.file} || {{ {moved}; }}; touch notes/planted"
        if finished:
            owner.bash(command)
        else:
            runs = owner.begin_bash(f"{command}; sleep 600")
            self.addCleanup(runs.close)
            eventually((owner.work / "notes/planted").exists, "the command has planted", TIMEOUT)
        owner.server.kill()
        self.assertTrue((owner.work / "notes/planted").exists())
        self.assert_not_obeyed(owner)

    def test_a_server_killed_during_the_command_does_not_obey_at_its_next_start(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                self.killed(kind, finished=False)

    def test_a_server_killed_right_after_the_command_does_not_obey_at_its_next_start(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                self.killed(kind, finished=True)

    # (e) Another command reads it meanwhile.

    def meanwhile(self, kind: str) -> None:
        owner = self.serve(kind)
        moved = f"mv {owner.folder} {owner.folder}.old; mkdir -p {owner.folder}; cp {owner.evil} {owner.file}"
        command = f"{owner.plant()}; grep -q evil {owner.file} || {{ {moved}; }}; touch notes/planted; {WAIT}"
        runs = owner.begin_bash(command)
        self.addCleanup(runs.close)
        eventually((owner.work / "notes/planted").exists, "the command has planted", TIMEOUT)
        self.assert_others_do_not_obey(owner)
        (owner.work / "notes/go").touch()
        runs.take(lambda frame: frame["type"] in ("run_end", "error"), TIMEOUT)
        self.assert_not_obeyed(owner)

    def test_another_command_does_not_obey_the_named_file_meanwhile(self) -> None:
        self.meanwhile(NAMED)

    def test_another_command_does_not_obey_the_users_file_meanwhile(self) -> None:
        self.meanwhile(USERS)

    def test_another_command_does_not_obey_the_projects_file_meanwhile(self) -> None:
        self.meanwhile(PROJECTS)

    # Where there was no file.

    def test_a_file_that_appears_where_there_was_none_stays_unread(self) -> None:
        for kind in (USERS, PROJECTS):
            with self.subTest(kind):
                owner = self.serve(kind, config=None)
                if kind == USERS:
                    owner.bash(f"rm -rf .config; mkdir -p {owner.folder}; cp {owner.evil} {owner.file}; true")
                else:
                    owner.bash(f"cp {owner.evil} {owner.file}; true")
                self.assert_not_obeyed(owner, trusted=None)

    def test_a_projects_file_that_an_agent_makes_beside_the_users_stays_unread(self) -> None:
        owner = self.serve(USERS)
        notes = owner.work / "notes"
        owner.bash(f"cp {owner.evil} {notes}/patchboard.toml; true")
        self.assertTrue((notes / "patchboard.toml").exists())
        for _ in range(2):
            shown = owner.elsewhere(notes, "config", "show")
            self.assertIn(DENIED, shown)
            self.assertNotIn("evil", shown)
            owner.elsewhere(notes, "tools", "list")
            owner.server.restart()
        self.assertFalse(owner.was_obeyed())

    def test_a_record_of_trust_that_the_file_brings_along_does_not_count(self) -> None:
        """The planted file names a data directory in which everything is already trusted."""
        for kind in KINDS:
            with self.subTest(kind):
                owner = self.serve(kind)
                owner.bash(f"mv {owner.folder} {owner.folder}.old; mkdir -p {owner.folder}; cp {owner.evil} {owner.file}; true")
                owner.server.terminate()
                # Made by the program itself, so that it is right whatever its form.
                text = f'data_dir = "{owner.work}/brought"\n' + owner.planted()
                (owner.file if owner.is_planted else owner.evil).write_text(text)
                if not owner.is_planted:
                    continue
                # By somebody whose own record is elsewhere.
                another = {"XDG_DATA_HOME": str(owner.root / "another")}
                owner.command("trust", "--yes", "--data-dir", f"{owner.work}/brought", env=another)
                self.assertTrue(any((owner.work / "brought/trust").rglob("*.json")))
                self.assert_others_do_not_obey(owner)
                self.assertFalse(owner.was_obeyed())


class WithNamespacesTest(Ways, Turns, TrustTestCase):
    namespaces = True


class WithoutNamespacesTest(Ways, Turns, TrustTestCase):
    namespaces = False


class OwnersEditTest(TrustTestCase):
    def edit(self, owner: Owner) -> None:
        owner.file.write_text(owner.planted())
        self.assertIn(ALLOWED, owner.shown())
        self.assertNotIn("PB0126", owner.command("doctor"))
        owner.server.start()
        eventually(owner.was_obeyed, "what its owner wrote counts at once", TIMEOUT)
        self.assertNotIn("PB0126", owner.server.log())
        owner.server.terminate()

    def test_an_edit_where_no_agent_was_counts_at_once(self) -> None:
        for kind in KINDS:
            with self.subTest(kind):
                owner = self.serve(kind)
                owner.server.terminate()
                self.edit(owner)

    def test_so_does_one_after_a_command_that_could_not_write_there(self) -> None:
        """The configuration's folder is the user's, and agents work elsewhere."""
        for namespaces in (True, False):
            with self.subTest(namespaces=namespaces):
                self.program = self.program if namespaces else self.without_namespaces()
                owner = self.owner(NAMED)
                owner.file = owner.root / "mine" / "patchboard.toml"
                owner.file.parent.mkdir()
                owner.file.write_text(TRUSTED)
                owner.server.start()
                owner.bash("echo hi > note")
                owner.server.terminate()
                self.edit(owner)


class AsNobody(AsAnotherUser):
    cases = ["test_trust.WithNamespacesTest", "test_trust.WithoutNamespacesTest", "test_trust.OwnersEditTest"]


def load_tests(loader, tests, pattern):
    return several_at_once(tests)


if __name__ == "__main__":
    unittest.main()
