"""Whoever may write to the data directory could replace what the server trusts: it is closed to others, or refused.

The same file runs as root and as an ordinary user: `AsAnotherUser` starts it once more as nobody where this is root.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
import subprocess
import unittest
from pathlib import Path

from gateway_client import Gateway, exceptions
from patchboard_server import NotReady, Server
from users_case import (
    OWNER,
    STRANGER,
    UsersServer,
    UsersTestCase,
    as_user,
    needs_root,
    operator_token,
    refused_start,
    run_again,
)

PLANTED = "planted0" * 8
# A file there is makes the server look for records of trust in the data directory.
CONFIG = "# nothing\n"
GROUP = 54399


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def users() -> list[int]:
    """Who the server can be here."""
    return [0, OWNER] if os.geteuid() == 0 else [os.geteuid()]


class FolderTestCase(UsersTestCase):
    def prepared(self, user: int | None = None, **options) -> Server:
        """A server of this user that was not started and has no data directory yet."""
        user = os.geteuid() if user is None else user
        server = Server(**options) if user == os.geteuid() else UsersServer(user, **options)
        self._own_servers.append(server)
        self.addCleanup(server.close)
        # Where the folder is can be seen by everybody, whatever its own mode.
        os.chmod(server.folder, 0o755)
        return server

    def folder(self, server: Server, mode: int, owner: int | None = None, group: int = -1) -> Path:
        data = server.data_dir
        data.mkdir()
        owner = getattr(server, "user", os.geteuid()) if owner is None else owner
        if os.geteuid() == 0:
            os.chown(data, owner, owner if group == -1 else group)
        os.chmod(data, mode)
        return data

    def refuses(self, server: Server, *words: str) -> str:
        said = refused_start(server, code=None)
        for word in words:
            self.assertIn(word, said)
        return said


class OwnFolderTest(FolderTestCase):
    """Folders of the server's own user."""

    def test_one_that_is_open_to_others_is_closed_and_the_log_says_so(self) -> None:
        for user in users():
            for mode in (0o755, 0o777, 0o750, 0o770, 0o711, 0o707, 0o701):
                with self.subTest(user=user, mode=f"{mode:o}"):
                    server = self.prepared(user)
                    data = self.folder(server, mode)
                    server.start()
                    self.assertEqual(mode_of(data), 0o700)
                    lines = [one for one in server.log().splitlines() if str(data) in one and f"{mode:o}" in one]
                    self.assertEqual(len(lines), 1, server.log())
                    self.assertIn("closed", lines[0])
                    server.close()

    def test_one_that_is_closed_stays_as_it_is_without_a_word(self) -> None:
        server = self.prepared()
        data = self.folder(server, 0o700)
        server.start()
        self.assertEqual(mode_of(data), 0o700)
        self.assertNotIn(str(data), server.log())

    def test_one_that_is_not_there_is_made_for_this_user_alone(self) -> None:
        server = self.prepared()
        server.data_dir = server.folder / "deep" / "er" / "data"
        before = os.umask(0)
        try:
            server.start()
        finally:
            os.umask(before)
        for folder in (server.data_dir, server.data_dir.parent):
            self.assertEqual(mode_of(folder), 0o700, folder)
        for file in server.data_dir.iterdir():
            self.assertEqual(mode_of(file) & 0o077, 0, file)

    def test_one_that_all_users_share_is_refused_and_left_as_it_is(self) -> None:
        for user in users():
            for mode in (0o1777, 0o1773, 0o3777):
                with self.subTest(user=user, mode=f"{mode:o}"):
                    server = self.prepared(user, config=CONFIG)
                    data = self.folder(server, mode)
                    self.refuses(server, str(data), "--data-dir")
                    self.assertEqual(mode_of(data), mode)
                    self.assertEqual(list(data.iterdir()), [])

    def test_also_where_groups_are_allowed(self) -> None:
        server = self.prepared(config="data_dir_group = true\n")
        data = self.folder(server, 0o1777)
        self.refuses(server, str(data), "--data-dir")
        self.assertEqual(mode_of(data), 0o1777)

    def test_where_groups_are_allowed_it_is_closed_to_all_others(self) -> None:
        server = self.prepared(config="data_dir_group = true\n")
        data = self.folder(server, 0o2777)
        server.start()
        self.assertEqual(mode_of(data), 0o2770)

    def test_a_token_that_others_could_read_is_replaced(self) -> None:
        server = self.prepared()
        data = self.folder(server, 0o755)
        (data / "operator.token").write_text(PLANTED)
        os.chmod(data / "operator.token", 0o644)
        server.start()
        self.assertNotEqual(operator_token(server), PLANTED)
        self.assertEqual(mode_of(data / "operator.token"), 0o600)

    def test_the_system_s_folders_are_refused_to_an_ordinary_user(self) -> None:
        if os.geteuid() == 0:
            self.skipTest("they are root's own")
        before = mode_of(Path("/usr"))
        server = self.prepared()
        server.data_dir = Path("/usr")
        self.refuses(server, f"chown -R {os.geteuid()} /usr")
        self.assertEqual(mode_of(Path("/usr")), before)


class FolderOfAnotherTest(FolderTestCase):
    """What takes two users."""

    def setUp(self) -> None:
        needs_root()

    def test_it_is_refused_with_the_command_that_mends_it(self) -> None:
        for user, owner in ((OWNER, STRANGER), (OWNER, 0), (0, STRANGER)):
            for mode in (0o700, 0o755, 0o777, 0o2770):
                with self.subTest(user=user, owner=owner, mode=f"{mode:o}"):
                    server = self.prepared(user, config=CONFIG)
                    data = self.folder(server, mode, owner)
                    self.refuses(server, f"chown -R {user} {data}", str(owner))
                    self.assertEqual((mode_of(data), data.stat().st_uid), (mode, owner))
                    self.assertEqual(list(data.iterdir()), [], "something was made in it")

    def test_nothing_is_written_where_a_link_in_it_leads(self) -> None:
        for user in (OWNER, 0):
            for mode in (0o755, 0o777):
                with self.subTest(user=user, mode=f"{mode:o}"):
                    server = self.prepared(user, config=CONFIG)
                    data = self.folder(server, mode, STRANGER)
                    victim = server.folder / "victim"
                    victim.mkdir(mode=0o700)
                    os.chown(victim, user, user)
                    names = ["cache", "plugins", "lock", "server.json", "patchboard.db", "operator.token"]
                    links = ["ln -s ../victim trust", *[f"ln -s ../victim/{name} {name}" for name in names]]
                    subprocess.run([*as_user(STRANGER), "sh", "-c", "; ".join(links)], cwd=data, check=True)
                    self.refuses(server, f"chown -R {user} {data}")
                    self.assertEqual(list(victim.iterdir()), [])

    def test_and_after_that_command_it_starts(self) -> None:
        server = self.prepared(OWNER)
        data = self.folder(server, 0o755, STRANGER)
        self.refuses(server)
        subprocess.run(["chown", "-R", str(OWNER), str(data)], check=True)
        server.start()
        self.assertEqual(mode_of(data), 0o700)

    def test_a_volume_of_a_group_is_accepted_where_that_is_allowed(self) -> None:
        for owner in (0, STRANGER):
            with self.subTest(owner=owner):
                server = self.prepared(OWNER, config="data_dir_group = true\n")
                # The group of the process, as of a pod with `fsGroup`.
                data = self.folder(server, 0o2770, owner, OWNER)
                server.start()
                self.assertEqual((mode_of(data), data.stat().st_uid), (0o2770, owner))
                with Gateway(server, additional_headers=bearer(operator_token(server))) as gateway:
                    self.assertEqual(gateway.result("ping"), "pong")
                before = operator_token(server)
                server.restart()
                self.assertEqual(operator_token(server), before)

    def test_and_refused_where_it_is_not(self) -> None:
        server = self.prepared(OWNER)
        data = self.folder(server, 0o2770, 0, OWNER)
        self.refuses(server, f"chown -R {OWNER} {data}", "data_dir_group")

    def test_not_one_that_everybody_may_write_to(self) -> None:
        server = self.prepared(OWNER, config="data_dir_group = true\n")
        data = self.folder(server, 0o2777, 0, OWNER)
        self.refuses(server, str(data), "chmod")
        self.assertEqual(mode_of(data), 0o2777)
        self.assertEqual(list(data.iterdir()), [])

    def test_nor_one_of_a_group_that_the_server_is_not_in(self) -> None:
        server = self.prepared(OWNER, config="data_dir_group = true\n")
        data = self.folder(server, 0o2770, 0, GROUP)
        self.refuses(server, str(data))


class PlantedTest(FolderTestCase):
    """What another user put into a folder that was open."""

    def setUp(self) -> None:
        needs_root()

    def plant(self, data: Path, script: str) -> None:
        """As the stranger, in the folder."""
        subprocess.run([*as_user(STRANGER), "sh", "-c", script], cwd=data, check=True)

    def assert_never_used(self, server: Server) -> None:
        """Starts it twice: what keeps it from starting the first time may look harmless the next time."""
        for _ in range(2):
            try:
                server.start()
            except NotReady as refused:
                self.assertNotIn("panicked", str(refused))
                continue
            token = operator_token(server)
            self.assertNotEqual(token, PLANTED)
            with self.assertRaises(exceptions.InvalidStatus):
                Gateway(server, additional_headers=bearer(PLANTED))
            with Gateway(server, additional_headers=bearer(token)) as gateway:
                self.assertEqual(gateway.result("ping"), "pong")
            found = os.lstat(server.data_dir / "operator.token")
            self.assertTrue(stat.S_ISREG(found.st_mode))
            self.assertEqual((found.st_uid, stat.S_IMODE(found.st_mode)), (server_user(server), 0o600))
            server.terminate()

    def test_an_operator_s_token_is_never_used(self) -> None:
        ways = {
            "a file": f"printf {PLANTED} > operator.token",
            "a private one": f"umask 077; printf {PLANTED} > operator.token",
            "one that all may change": f"umask 0; printf {PLANTED} > operator.token",
            "a link": f"printf {PLANTED} > other; ln -s other operator.token",
            "a link to a file elsewhere": "ln -s ../elsewhere operator.token",
            "a link to nothing": "ln -s ../not-there operator.token",
            "a folder": "mkdir operator.token",
            "a pipe": "mkfifo operator.token",
        }
        for user in (OWNER, 0):
            for name, script in ways.items():
                with self.subTest(name, user=user):
                    server = self.prepared(user)
                    elsewhere = server.folder / "elsewhere"
                    # Of the server's own user, and private: only the name was planted.
                    elsewhere.write_text(PLANTED)
                    os.chown(elsewhere, user, user)
                    os.chmod(elsewhere, 0o600)
                    self.plant(self.folder(server, 0o777), script)
                    self.assert_never_used(server)
                    server.close()

    def records(self, data: Path, config: Path, content: str) -> None:
        """Plants records which say that this content is what is trusted of the configuration. They are the server's own
        form, as anybody can see who has a server."""
        folder = config.parent
        for kind, path, value in (("config", config, content), ("exposed", folder, True)):
            name = hashlib.sha256(str(path).encode()).hexdigest()
            record = json.dumps({"path": str(path), "generation": 99, "value": value})
            self.plant(data, f"mkdir -p trust/{kind} && printf %s {shlex.quote(record)} > trust/{kind}/{name}.json")

    def assert_not_let_in(self, server: Server) -> None:
        """Starts it twice. The planted configuration would let the stranger in."""
        stranger = self.program_of(STRANGER)
        for _ in range(2):
            try:
                server.start()
            except NotReady as refused:
                self.assertNotIn("panicked", str(refused))
                continue
            self.assertEqual(stranger.get(server.gateway, "/health").status, 403, server.log())
            server.terminate()

    def test_records_of_trust_are_never_obeyed(self) -> None:
        server = self.prepared(OWNER, config=CONFIG)
        self.records(self.folder(server, 0o777), server.config_file, f"trusted_users = [{STRANGER}]\n")
        self.assert_not_let_in(server)

    def test_nor_are_those_that_name_another_data_directory(self) -> None:
        """In the folder that is the default one, where the command line names none."""
        server = self.prepared(OWNER, config=CONFIG)
        data = server.folder / "user" / "data" / "patchboard"
        data.mkdir(parents=True)
        for folder in (data.parent.parent, data.parent, data):
            os.chown(folder, OWNER, OWNER)
        os.chmod(data, 0o777)
        planted = f'data_dir = "{server.folder}/fresh"\ntrusted_users = [{STRANGER}]\n'
        self.records(data, server.config_file, planted)
        usual = server.command
        server.command = lambda: [one for one in usual() if one not in ("--data-dir", str(server.data_dir))]
        self.assert_not_let_in(server)

    def test_what_is_there_keeps_the_server_from_starting_however_often_it_is_tried(self) -> None:
        ways = {
            "a token": f"printf {PLANTED} > operator.token",
            "a database": "umask 0; touch patchboard.db",
            "a plugin": "mkdir plugins; touch plugins/evil.wasm",
            "a lock": "umask 0; touch lock",
            "a record of trust": "mkdir -p trust/config; touch trust/config/x.json",
            "a link": "ln -s /tmp patchboard.db-wal",
        }
        for name, script in ways.items():
            for attempt in ("first", "second"):
                with self.subTest(name, attempt=attempt):
                    if attempt == "first":
                        server = self.prepared(OWNER)
                        data = self.folder(server, 0o777)
                        self.plant(data, script)
                    self.refuses(server, str(data), f"chown {OWNER} ")

    def test_it_starts_when_that_is_gone(self) -> None:
        server = self.prepared(OWNER)
        data = self.folder(server, 0o777)
        self.plant(data, f"printf {PLANTED} > operator.token")
        self.refuses(server, str(data / "operator.token"), str(STRANGER))
        (data / "operator.token").unlink()
        server.start()
        self.assertNotEqual(operator_token(server), PLANTED)
        self.assertEqual(mode_of(data), 0o700)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def server_user(server: Server) -> int:
    return getattr(server, "user", os.geteuid())


class AsAnotherUser(unittest.TestCase):
    def test_the_same_as_an_ordinary_user(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("this is an ordinary user already")
        run_again("test_data_dir_owner.OwnFolderTest")


if __name__ == "__main__":
    unittest.main()
