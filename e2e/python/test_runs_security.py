"""Who may drive runs, what tools can reach, and that nobody's nonsense disturbs anybody else."""

from __future__ import annotations

import base64
import ctypes
import http.server
import json
import os
import subprocess
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

import raw_client
from gateway_client import eventually
from patchboard_server import binary
from raw_client import BINARY, CLOSE, PING, PONG, TEXT, UPGRADE, frame, peak_memory
from runs_case import RunsTestCase
from runs_client import (
    TIMEOUT,
    Bystander,
    Runs,
    exceptions,
    processes_with,
    seconds_mark,
    side,
    status_of,
    upgrade,
    url_of,
)
from stub_model import Call, Reply, Request, Text

TOKEN = "0123456789abcdef0123456789abcdef"
SECRET = "the secret outside"
MARK = "left by a tool"


def has_landlock() -> bool:
    """Whether the kernel confines files by Landlock: asks for its version, which changes nothing."""
    create_ruleset, only_version = 444, 1
    return ctypes.CDLL(None, use_errno=True).syscall(create_ruleset, None, 0, only_version) >= 1


class DoorTest(RunsTestCase):
    def upgrade_with(self, **headers: str) -> int:
        return status_of(self.server, {"Host": self.server.address("runs"), **headers, **UPGRADE})

    def test_a_page_of_another_site_is_refused_before_the_upgrade(self) -> None:
        self.connect()
        for origin in ("https://evil.example", "null", "http://localhost.evil.example", "file://", ""):
            with self.subTest(origin):
                self.assertEqual(self.upgrade_with(Origin=origin), 403)
        with self.assertRaises(exceptions.InvalidStatus) as refused:
            Runs(self.server, origin="https://evil.example")
        self.assertEqual(refused.exception.response.status_code, 403)

    def test_pages_of_this_machine_are_let_in(self) -> None:
        self.connect()
        for origin in ("http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:5173"):
            with self.subTest(origin), Runs(self.server, origin=origin) as runs:
                self.assertEqual(runs.ask("ping", id="p")["type"], "pong")

    def test_a_host_that_is_not_this_machine_is_refused(self) -> None:
        self.connect()
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "0.0.0.0", ""):
            with self.subTest(host):
                self.assertEqual(self.upgrade_with(Host=host), 403)
        self.assertIn(status_of(self.server, dict(UPGRADE)), (400, 403), "no Host at all")
        for host in ("localhost", "127.0.0.1", "[::1]:8080"):
            with self.subTest(host):
                self.assertEqual(self.upgrade_with(Host=host), 101)

    def test_what_is_configured_is_let_in(self) -> None:
        self.connect(runs='allowed_origins = ["https://console.example.com"]\nallowed_hosts = ["board.example.com"]')
        self.assertEqual(self.upgrade_with(Host="board.example.com"), 101)
        self.assertEqual(self.upgrade_with(Origin="https://console.example.com"), 101)
        self.assertEqual(self.upgrade_with(Origin="http://console.example.com"), 403)
        self.assertEqual(self.upgrade_with(Host="example.com"), 403)


class TokenTest(RunsTestCase):
    def serve(self, config: str = 'token = "env:RUNS_TOKEN"', **options) -> None:
        # The first client would be refused, so the server is started here.
        options = {"gateway": "off", "runs": "127.0.0.1:0", **options}
        self.server = self.start_server(
            config=config if "[" in config else f"[runs]\n{config}\n",
            env={"RUNS_TOKEN": TOKEN, "GATEWAY_TOKEN": "g" * 32},
            **options,
        )

    def refused_with(self, **options) -> int:
        with self.assertRaises(exceptions.InvalidStatus) as refused:
            Runs(self.server, **options).close()
        return refused.exception.response.status_code

    def test_without_the_token_nobody_comes_in(self) -> None:
        self.serve()
        self.assertIn(self.refused_with(), (401, 403))
        for wrong in ("", "wrong", TOKEN[:-1], TOKEN + "0", TOKEN.upper()):
            with self.subTest(wrong):
                self.assertIn(self.refused_with(token=wrong), (401, 403))
                if wrong:
                    self.assertIn(self.refused_with(subprotocols=[f"bearer.{wrong}"]), (401, 403))
        self.assertIn(self.refused_with(subprotocols=[TOKEN]), (401, 403))
        self.assertIn(self.refused_with(additional_headers={"Authorization": f"Basic {TOKEN}"}), (401, 403))

    def test_in_the_address_it_is_worth_nothing(self) -> None:
        self.serve()
        for query in (f"?token={TOKEN}", f"?bearer={TOKEN}", f"?access_token={TOKEN}"):
            with self.assertRaises(exceptions.InvalidStatus):
                Runs(url_of(self.server) + query).close()

    def test_as_a_header(self) -> None:
        self.serve()
        with Runs(self.server, token=TOKEN) as runs:
            self.assertEqual(runs.ask("ping", id="p"), {"type": "pong", "id": "p"})

    def test_the_word_before_it_may_be_in_any_case(self) -> None:
        """HTTP compares the names of authentication schemes without regard to case."""
        self.serve()
        for word in ("bearer", "BEARER"):
            with Runs(self.server, additional_headers={"Authorization": f"{word} {TOKEN}"}) as runs:
                self.assertEqual(runs.ask("ping", id="p")["type"], "pong")

    def test_as_a_subprotocol(self) -> None:
        self.serve()
        for offered in ([f"bearer.{TOKEN}"], ["loom", f"bearer.{TOKEN}"]):
            with Runs(self.server, subprotocols=offered) as runs:
                # A browser gives up a connection that accepts none of what it offered.
                self.assertIn(runs.socket.subprotocol, offered)
                self.assertEqual(runs.ask("ping", id="p")["type"], "pong")

    def test_the_gateway_s_is_the_default(self) -> None:
        self.serve('[gateway]\ntoken = "env:GATEWAY_TOKEN"\n', gateway="127.0.0.1:0")
        self.assertIn(self.refused_with(), (401, 403))
        with Runs(self.server, token="g" * 32) as runs:
            self.assertEqual(runs.ask("ping", id="p")["type"], "pong")

    def test_its_own_wins_over_the_gateway_s(self) -> None:
        self.serve('[gateway]\ntoken = "env:GATEWAY_TOKEN"\n[runs]\ntoken = "env:RUNS_TOKEN"\n', gateway="127.0.0.1:0")
        self.assertIn(self.refused_with(token="g" * 32), (401, 403))
        with Runs(self.server, token=TOKEN) as runs:
            self.assertEqual(runs.ask("ping", id="p")["type"], "pong")

    def test_the_token_does_not_replace_the_other_checks(self) -> None:
        self.serve()
        self.assertEqual(self.refused_with(token=TOKEN, origin="https://evil.example"), 403)

    def test_wrong_tokens_do_not_lock_out_the_right_one(self) -> None:
        self.serve()
        with Bystander(self.server, token=TOKEN) as bystander:
            # After some, every further one is held back for a second.
            with ThreadPoolExecutor(10) as pool:
                statuses = list(pool.map(lambda number: self.refused_with(token=f"wrong {number}"), range(30)))
            self.assertLessEqual(set(statuses), {401, 403, 429})
            with Runs(self.server, token=TOKEN) as runs:
                self.assertEqual(runs.ask("ping", id="p")["type"], "pong")
            bystander.is_served()

    def test_off_loopback_it_does_not_start_without_one(self) -> None:
        for config in ("", "[runs]\ninsecure = true\n"):
            done = self.start_off_loopback(config)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("token", done.stderr)
        done = self.start_off_loopback('[runs]\ntoken = "env:RUNS_TOKEN"\n')
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("insecure", done.stderr)

    def start_off_loopback(self, config: str) -> subprocess.CompletedProcess:
        self.serve()
        file = self.server.folder / "off.toml"
        file.write_text(config)
        command = [binary(), "serve", "--config", str(file), "--data-dir", str(self.server.folder / "other")]
        others = ["--gateway", "off", "--hub", "off", "--bridge", "off", "--runs", "0.0.0.0:0"]
        return subprocess.run(
            [*command, *others],
            env={**self.server.environment(), "RUNS_TOKEN": TOKEN},
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )


class FolderTestCase(RunsTestCase):
    def prepare(self, **options) -> Runs:
        """`self.work` is where tools work; beside it lies what they must not reach, and links lead there."""
        runs = self.connect(**options)
        self.outside = self.server.folder / "outside"
        self.outside.mkdir()
        (self.outside / "secret.txt").write_text(SECRET)
        (self.work / "inside.txt").write_text("inside")
        (self.work / "file-link").symlink_to(self.outside / "secret.txt")
        (self.work / "folder-link").symlink_to(self.outside)
        (self.work / "relative-link").symlink_to("../outside")
        (self.work / "root-link").symlink_to("/")
        (self.work / "loop").symlink_to("loop")
        (self.work / "dangling").symlink_to(self.outside / "made-through-a-link")
        (self.work / "sub").mkdir()
        (self.work / "sub" / "up").symlink_to("../..")
        self.before = self.listing()
        return runs

    def listing(self) -> dict[str, str]:
        return {str(path): path.read_text() for path in sorted(self.outside.rglob("*")) if path.is_file()}

    def call(self, runs: Runs, *calls: Call) -> list[dict]:
        """One run that makes these calls; gives what each came to, in order."""
        self.model.script(Reply(*calls), Reply(Text("done")))
        run = runs.run("go", working_folder=str(self.work), timeout=60)
        self.assertEqual(run.reply, "done")
        ends = {event["call_id"]: event for event in run.of("tool_end")}
        return [ends[call["call_id"]] for call in run.of("tool_call")]

    def check_refused(self, runs: Runs, tool: str, *arguments: dict) -> None:
        for at in range(0, len(arguments), 5):
            part = arguments[at : at + 5]
            for given, end in zip(part, self.call(runs, *[Call(tool, one) for one in part])):
                with self.subTest(tool=tool, **{"arguments": given}):
                    self.assertTrue(end["is_error"], end)
                    self.assertNotIn(SECRET, end["result"])
        self.assertEqual(self.listing(), self.before, "something outside was changed")


class WorkingFolderTest(FolderTestCase):
    def test_one_outside_the_allowed_roots_is_refused(self) -> None:
        runs = self.prepare()
        elsewhere = [
            "/",
            "/etc",
            "/tmp",
            str(self.server.folder.parent),
            str(self.server.folder / ".."),
            str(self.work / ".." / ".." / ".."),
            str(self.work / "root-link" / "etc"),
            str(self.work / "root-link"),
            str(self.work / "absent"),
            str(self.work / "inside.txt"),
            str(self.work / "loop"),
            "\0",
            str(self.work) + "\0",
        ]
        for folder in elsewhere:
            with self.subTest(folder):
                run = runs.run("hi", id="r", working_folder=folder)
                self.assertEqual((run.frames, list(run.ending)), ([], ["type", "id", "error"]))
                self.assertEqual(runs.ask("tools_list", id="t", working_folder=folder)["type"], "error")
        self.assertEqual(self.model.requests, [])

    def test_only_the_configured_roots_count(self) -> None:
        runs = self.connect(runs='working_folder = "."\nallowed_roots = ["."]')
        self.assertEqual(runs.run("hi", working_folder=str(self.work)).reply, "echo: hi")
        config = self.server.config_file.read_text()
        config = config.replace('allowed_roots = ["."]', 'allowed_roots = ["work"]').replace(
            'working_folder = "."', 'working_folder = "work"'
        )
        self.server.config_file.write_text(config)
        self.server.restart()
        with self.another() as later:
            self.assertEqual(later.run("hi", working_folder=str(self.work)).reply, "echo: hi")
            self.assertEqual(later.run("hi", working_folder=str(self.server.folder)).ending["type"], "error")

    def test_the_data_directory_is_no_working_folder(self) -> None:
        runs = self.connect()
        run = runs.run("hi", working_folder=str(self.server.data_dir))
        if run.ending["type"] == "run_end":
            # Then at least nothing in it can be read.
            self.model.script(Reply(Call("ls", {}), Call("grep", {"pattern": "."})), Reply(Text("done")))
            run = runs.run("go", working_folder=str(self.server.data_dir))
            self.assertTrue(all(event["is_error"] for event in run.of("tool_end")), run.of("tool_end"))


class FileToolsTest(FolderTestCase):
    PATHS = (
        "../outside/secret.txt",
        "sub/../../outside/secret.txt",
        "file-link",
        "folder-link/secret.txt",
        "relative-link/secret.txt",
        "sub/up/outside/secret.txt",
        "loop",
        "inside.txt/../../outside/secret.txt",
    )

    def paths(self) -> list[str]:
        absolute = str(self.outside / "secret.txt")
        return [*self.PATHS, absolute, "root-link" + absolute, "file://" + absolute, "~/../.." + absolute]

    def new_paths(self) -> list[str]:
        absolute = str(self.outside / "new.txt")
        return [
            "../outside/new.txt",
            "folder-link/new.txt",
            "relative-link/new.txt",
            "sub/up/outside/new.txt",
            "dangling",
            absolute,
            "root-link" + absolute,
        ]

    def test_read(self) -> None:
        runs = self.prepare()
        self.check_refused(runs, "read", *[{"path": path} for path in self.paths()])

    def test_write_file(self) -> None:
        runs = self.prepare()
        paths = [*self.PATHS, *self.new_paths()]
        self.check_unwritten(runs, "write_file", *[{"path": path, "content": MARK} for path in paths])
        self.check_unwritten(runs, "write_file", *[{"path": path, "content": MARK, "append": True} for path in paths])

    def check_unwritten(self, runs: Runs, tool: str, *arguments: dict) -> None:
        """Refused, or it replaced the link itself: what lies outside is as it was either way."""
        for at in range(0, len(arguments), 5):
            self.call(runs, *[Call(tool, one) for one in arguments[at : at + 5]])
        self.assertEqual(self.listing(), self.before, "something outside was changed")
        self.assertEqual([path for path in self.server.folder.iterdir() if path.name == "new.txt"], [])

    def test_edit_and_multiedit(self) -> None:
        runs = self.prepare()
        change = {"oldString": "secret", "newString": MARK}
        self.check_refused(runs, "edit", *[{"path": path, **change} for path in self.paths()])
        self.check_refused(runs, "multiedit", *[{"path": path, "edits": [change]} for path in self.paths()])
        make = {"oldString": "", "newString": MARK}
        self.check_unwritten(runs, "edit", *[{"path": path, **make} for path in self.new_paths()])
        self.check_unwritten(runs, "multiedit", *[{"path": path, "edits": [make]} for path in self.new_paths()])

    def test_apply_patch(self) -> None:
        runs = self.prepare()
        patches = []
        for path in self.paths():
            patches.append(f"*** Begin Patch\n*** Update File: {path}\n@@\n-{SECRET}\n+{MARK}\n*** End Patch")
            moved = f"*** Update File: inside.txt\n*** Move to: {path}\n@@\n-inside\n+{MARK}"
            patches.append(f"*** Begin Patch\n{moved}\n*** End Patch")
        for path in self.new_paths():
            patches.append(f"*** Begin Patch\n*** Add File: {path}\n+{MARK}\n*** End Patch")
        for path in self.paths():
            patches.append(f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch")
        self.check_unwritten(runs, "apply_patch", *[{"patchText": patch} for patch in patches])

    def test_move_file(self) -> None:
        runs = self.prepare()
        away = [{"source": path, "target": f"stolen-{at}"} for at, path in enumerate(self.paths())]
        self.check_unwritten(runs, "move_file", *away)
        for at, _ in enumerate(self.paths()):
            stolen = self.work / f"stolen-{at}"
            self.assertFalse(stolen.is_file() and not stolen.is_symlink() and stolen.read_text() == SECRET)
        paths = self.new_paths()
        for at, _ in enumerate(paths):
            (self.work / f"mine-{at}").write_text(MARK)
        self.check_unwritten(
            runs, "move_file", *[{"source": f"mine-{at}", "target": path} for at, path in enumerate(paths)]
        )

    def test_delete_file(self) -> None:
        runs = self.prepare()
        outside = ["..", "../outside", "folder-link/", "folder-link/secret.txt", "sub/up/outside", str(self.outside)]
        calls = [{"path": path, "recursive": True} for path in [*outside, *self.paths()]]
        self.check_unwritten(runs, "delete_file", *calls)
        self.assertTrue(self.server.config_file.exists())

    def test_deleting_a_folder_does_not_follow_its_links(self) -> None:
        runs = self.prepare()
        (self.work / "sub" / "out").symlink_to(self.outside)
        (end,) = self.call(runs, Call("delete_file", {"path": "sub", "recursive": True}))
        self.assertFalse(end["is_error"], end)
        self.assertFalse((self.work / "sub").exists())
        self.assertEqual(self.listing(), self.before)
        self.assertTrue(self.server.config_file.exists())

    def test_create_dir(self) -> None:
        runs = self.prepare()
        paths = ["../made", "folder-link/made", "sub/up/made", "dangling", str(self.outside / "made"), "dangling/x"]
        self.call(runs, *[Call("create_dir", {"path": path}) for path in paths])
        self.assertEqual([path.name for path in self.outside.iterdir()], ["secret.txt"])
        self.assertFalse((self.server.folder / "made").exists())

    def test_ls_glob_and_grep(self) -> None:
        runs = self.prepare()
        folders = ["..", "../outside", "folder-link", "relative-link", "sub/up/outside", str(self.outside), "/", "/etc"]
        calls = [("ls", {"path": path}) for path in folders]
        calls += [("glob", {"pattern": "**/*", "path": path}) for path in folders]
        calls += [("glob", {"pattern": pattern}) for pattern in ("../**", "folder-link/*", "**/secret*", "/etc/*")]
        calls += [("grep", {"pattern": "secret", "path": path}) for path in [*folders, "file-link"]]
        calls += [("grep", {"pattern": "secret"}), ("ls", {})]
        for at in range(0, len(calls), 5):
            part = calls[at : at + 5]
            for (tool, given), end in zip(part, self.call(runs, *[Call(tool, one) for tool, one in part])):
                with self.subTest(tool=tool, **{"arguments": given}):
                    self.assertNotIn(SECRET, end["result"])
                    if not end["is_error"]:
                        self.assertNotIn("secret.txt", end["result"])
                        self.assertNotIn("passwd", end["result"])

    def test_through_a_batch(self) -> None:
        runs = self.prepare()
        absolute = str(self.outside / "secret.txt")
        inner = [
            {"tool": "read", "parameters": {"path": "../outside/secret.txt"}},
            {"tool": "read", "parameters": {"path": "file-link"}},
            {"tool": "read", "parameters": {"path": absolute}},
            {"tool": "write_file", "parameters": {"path": absolute, "content": MARK}},
            {"tool": "delete_file", "parameters": {"path": "folder-link/secret.txt"}},
        ]
        (end,) = self.call(runs, Call("batch", {"calls": inner}))
        self.assertNotIn(SECRET, end["result"])
        self.assertEqual(self.listing(), self.before)

    def test_a_batch_asks_like_its_parts(self) -> None:
        runs = self.prepare(more='\n[tools.approval]\nwrite_file = "deny"\n')
        inner = [{"tool": "write_file", "parameters": {"path": "made.txt", "content": MARK}}]
        self.call(runs, Call("batch", {"calls": inner}))
        self.assertFalse((self.work / "made.txt").exists(), "refused by policy, and done by a batch")

    def test_skill(self) -> None:
        runs = self.prepare()
        skills = self.work / ".patchboard" / "skills"
        skills.mkdir(parents=True)
        (skills / "good.md").write_text("how to be good")
        (skills / "bad.md").symlink_to(self.outside / "secret.txt")
        (self.outside / "wrong.md").write_text(SECRET)
        (self.work / "beside.md").write_text(SECRET)
        self.before = self.listing()
        (end,) = self.call(runs, Call("skill", {"name": "good"}))
        self.assertIn("how to be good", end["result"])
        names = [
            "../../../outside/wrong",
            "../../../outside/wrong.md",
            "../../beside",
            "good/../../../beside",
            "bad",
            str(self.outside / "wrong"),
            "..",
            ".",
            "/",
            "",
        ]
        self.check_refused(runs, "skill", *[{"name": name} for name in names])

    def test_the_data_directory_is_refused_under_an_allowed_root(self) -> None:
        runs = self.connect()
        data = self.server.data_dir.name
        files = [path.name for path in self.server.data_dir.iterdir() if path.is_file()]
        self.assertTrue(files)
        self.outside, self.work = self.server.data_dir, self.server.folder
        (self.work / "to-data").symlink_to(data)
        calls = [
            *[Call("read", {"path": f"{data}/{name}"}) for name in files[:2]],
            Call("ls", {"path": data}),
            Call("glob", {"pattern": f"{data}/*"}),
            Call("grep", {"pattern": "SQLite", "path": data}),
            Call("write_file", {"path": f"{data}/planted", "content": MARK}),
            Call("create_dir", {"path": f"{data}/made"}),
            Call("read", {"path": f"to-data/{files[0]}"}),
            Call("move_file", {"source": f"{data}/{files[0]}", "target": "stolen"}),
            Call("move_file", {"source": data, "target": "stolen-folder"}),
        ]
        for at in range(0, len(calls), 5):
            for call, end in zip(calls[at:], self.call(runs, *calls[at : at + 5])):
                with self.subTest(f"{call.name} {call.arguments}"):
                    if call.name != "glob":
                        self.assertTrue(end["is_error"], end)
                    for name in files:
                        self.assertNotIn(f"{data}/{name}", end["result"] if not end["is_error"] else "")
        self.assertTrue(self.server.data_dir.is_dir())
        self.assertFalse((self.server.data_dir / "planted").exists())


class BashTest(FolderTestCase):
    def bash(self, runs: Runs, command: str, **more: object) -> dict:
        (end,) = self.call(runs, Call("bash", {"command": command, **more}))
        return end

    def test_it_works_in_the_folder_and_says_how_it_went(self) -> None:
        runs = self.prepare()
        end = self.bash(runs, "pwd; cat inside.txt; echo to-error >&2; exit 7")
        for word in (str(self.work), "inside", "to-error", "7"):
            self.assertIn(word, end["result"])
        self.assertIn(str(self.work / "sub"), self.bash(runs, "pwd", workdir="sub")["result"])

    def test_its_folder_cannot_be_outside(self) -> None:
        runs = self.prepare()
        folders = ["..", "../outside", "/", str(self.outside), "folder-link", "root-link/etc", "sub/up"]
        for folder in folders:
            with self.subTest(folder):
                self.assertTrue(self.bash(runs, "pwd; ls", workdir=folder)["is_error"])

    @unittest.skipUnless(has_landlock(), "this kernel has no Landlock")
    def test_files_outside_cannot_be_read_or_changed(self) -> None:
        runs = self.prepare()
        outside, data = self.outside, self.server.data_dir
        commands = [
            f"cat {outside}/secret.txt",
            "cat ../outside/secret.txt",
            "cat file-link; cat folder-link/secret.txt",
            f"cp {outside}/secret.txt stolen; cat stolen",
            f"ln {outside}/secret.txt stolen2; cat stolen2",
            f"mv {outside}/secret.txt stolen3; cat stolen3",
            f"echo {MARK} > {outside}/planted",
            f"echo {MARK} >> {outside}/secret.txt",
            f"rm -rf {outside}/secret.txt",
            f"ls {outside}",
            f"mkdir {outside}/made",
            f"cat {data}/*",
            f"ls -la {data}",
            f"rm -rf {data}",
            f"cat /proc/{self.server.pid}/environ | tr '\\0' '\\n'",
            "cat /proc/$PPID/environ | tr '\\0' '\\n'",
            f"cat /proc/{self.server.pid}/root{outside}/secret.txt",
            f"cat {self.server.config_file}",
            "ls -a ~root; cat ~/.ssh/* ~root/.ssh/* /etc/shadow",
        ]
        files = {path.name for path in data.iterdir()}
        for command in commands:
            with self.subTest(command):
                result = self.bash(runs, command)["result"]
                self.assertNotIn(SECRET, result)
                self.assertNotIn("stub-key", result)
                self.assertNotIn("env:STUB_MODEL_KEY", result, "the configuration lies outside of the folder")
                self.assertFalse([name for name in files if f" {name}\n" in result], result)
        self.assertEqual(self.listing(), self.before)
        self.assertEqual({path.name for path in data.iterdir()} & files, files)

    @unittest.skipUnless(has_landlock(), "this kernel has no Landlock")
    def test_the_data_directory_is_refused_under_the_folder_itself(self) -> None:
        runs = self.connect()
        self.work = self.server.folder
        files = [path.name for path in self.server.data_dir.iterdir()]
        for command in ("cat data/*", "ls -la data", "cp -r data stolen; ls stolen", "mv data gone; ls gone"):
            with self.subTest(command):
                result = self.bash(runs, command)["result"]
                self.assertFalse([name for name in files if f"{name}\n" in result], result)
                self.assertNotIn("SQLite format", result)
        self.assertTrue(self.server.data_dir.is_dir())

    def test_its_environment_is_clean(self) -> None:
        runs = self.prepare(env={"A_SECRET": "canary-in-the-environment", "OPENAI_API_KEY": "canary-key"})
        result = self.bash(runs, "env; export -p; cat /proc/self/environ")["result"]
        for word in ("canary", "stub-key", "STUB_MODEL_KEY", "A_SECRET", "OPENAI_API_KEY"):
            self.assertNotIn(word, result)
        self.assertIn("PATH=", result)

    def test_it_gets_no_privileges_and_no_open_files(self) -> None:
        runs = self.prepare()
        result = self.bash(runs, "grep NoNewPrivs /proc/self/status; ls -l /proc/self/fd")["result"]
        self.assertRegex(result, r"NoNewPrivs:\s+1")
        self.assertNotIn(str(self.server.data_dir), result)
        self.assertNotIn("socket:", result)

    def test_a_time_limit_ends_the_whole_group(self) -> None:
        runs = self.prepare()
        mark = seconds_mark()
        end = self.bash(runs, f"sleep {mark} & sleep {mark}; echo never", timeout=300)
        self.assertTrue(end["is_error"], end)
        self.assertNotIn("never", end["result"])
        eventually(lambda: not processes_with(mark), "the process is gone", TIMEOUT)

    def test_what_it_leaves_in_the_background_ends_with_it(self) -> None:
        runs = self.prepare()
        mark = seconds_mark()
        end = self.bash(runs, f"(setsid sleep {mark} > /dev/null 2>&1 &); echo started")
        self.assertIn("started", end["result"])
        eventually(lambda: not processes_with(mark), "the background process is gone", TIMEOUT)

    def test_endless_output_costs_little(self) -> None:
        runs = self.prepare()
        before = peak_memory(self.server)
        end = self.bash(runs, "yes | head -c 200000000")
        self.assertLess(len(end["result"]), 70_000)
        self.assertLess(peak_memory(self.server) - before, 50)


class ChildTest(FolderTestCase):
    """What a command may not do through the server that runs it."""

    # Speaks the protocol itself: opens a connection, sends what it is given, and approves whatever it is asked about.
    # A mask of zeros leaves a frame as it is.
    SCRIPT = r"""
        exec 3<>/dev/tcp/$1/$2 || exit 1
        echo "$3" | base64 -d >&3
        while IFS= read -r -t 5 -d '}' piece <&3; do
            case $piece in
            *'"tool_approval"'*)
                call=${piece#*'"call_id":"'}
                answer='{"type":"tool_approve","id":"child","call_id":"'${call%%'"'*}'","approve":true}'
                printf '\x81\x'$(printf %x $((128 + ${#answer})))'\0\0\0\0%s' "$answer" >&3 ;;
            *'"tool_end"'*) echo "seen: $piece" ;;
            *'"run_end"'*|*'"error":'*) echo "seen: $piece"; exit 0 ;;
            esac
        done
    """

    def talk(self, folder: str, call: Call, more: str = "") -> str:
        """A run whose model runs a command that starts a run of its own in that folder, whose model makes this call;
        gives what the command saw."""
        command: list[Call] = []

        def model(request: Request) -> Reply:
            if any(message["role"] == "tool" for message in request.messages):
                return Reply(Text("done"))
            return Reply(call) if request.last_user_text == "of the child" else Reply(*command)

        runs = self.prepare(fallback=model, more=more)
        host, port = self.server.address("runs").rsplit(":", 1)
        where = str(self.server.folder / folder)
        child = {"type": "run", "id": "child", "message": "of the child", "agent": "react", "working_folder": where}
        opening = raw_client.head("/", {"Host": f"{host}:{port}", **UPGRADE}) + frame(json.dumps(child).encode())
        (self.work / "talk.sh").write_text(self.SCRIPT)
        script = f"bash talk.sh {host} {port} {base64.b64encode(opening).decode()}"
        command.append(Call("bash", {"command": script, "timeout": 20_000}))
        run = runs.run("of the parent", working_folder=str(self.work))
        return run.of("tool_end")[0]["result"]

    def test_a_command_cannot_answer_in_the_place_of_a_person(self) -> None:
        call = Call("write_file", {"path": "planted.txt", "content": MARK})
        seen = self.talk("work", call, more='\n[tools.approval]\nwrite_file = "ask"\n')
        self.assertFalse((self.work / "planted.txt").exists(), f"approved by a command: {seen}")

    def test_a_command_cannot_reach_another_folder_through_the_server(self) -> None:
        self.assertNotIn(SECRET, self.talk("outside", Call("read", {"path": "secret.txt"})))


class FetchTest(FolderTestCase):
    def listen(self) -> str:
        """A web server on loopback that notes who asks; gives its port."""
        self.asked: list[str] = []
        test = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                test.asked.append(self.path)
                if self.path == "/elsewhere":
                    self.send_response(302)
                    self.send_header("Location", f"http://127.0.0.1:{test.port}/secret")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                body = b"x" * 5_000_000 if self.path == "/big" else SECRET.encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except ConnectionError:
                    pass  # Had enough of it.

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return str(self.port)

    def test_addresses_of_this_machine_and_private_networks_are_refused(self) -> None:
        runs = self.prepare()
        port = self.listen()
        hosts = [
            f"127.0.0.1:{port}",
            f"localhost:{port}",
            f"LOCALHOST.:{port}",
            f"127.1:{port}",
            f"2130706433:{port}",
            f"0x7f000001:{port}",
            f"0177.0.0.1:{port}",
            f"[::1]:{port}",
            f"[::ffff:127.0.0.1]:{port}",
            f"[::ffff:7f00:1]:{port}",
            f"0.0.0.0:{port}",
            f"[::]:{port}",
            f"user:pass@127.0.0.1:{port}",
            f"example.com@127.0.0.1:{port}",
            "169.254.169.254",
            "[fe80::1]",
            "[fd00:ec2::254]",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.0.1",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "[64:ff9b::7f00:1]",
            "metadata.google.internal",
        ]
        self.check_refused(runs, "web_fetcher", *[{"url": f"http://{host}/secret"} for host in hosts])
        self.assertEqual(self.asked, [])

    def test_only_http(self) -> None:
        runs = self.prepare()
        urls = [
            "file:///etc/passwd",
            f"file://{self.outside}/secret.txt",
            "ftp://127.0.0.1/",
            "gopher://127.0.0.1/",
            "x",
            "",
        ]
        self.check_refused(
            runs, "web_fetcher", *[{"url": url} for url in [*urls, "data:text/plain,hi", "//127.0.0.1/"]]
        )

    def test_an_allowed_host_is_fetched_and_its_redirect_checked_again(self) -> None:
        runs = self.prepare(more='\n[tools]\nfetch_private_hosts = ["localhost"]\n')
        port = self.listen()
        good, redirected, big = self.call(
            runs,
            Call("web_fetcher", {"url": f"http://localhost:{port}/good"}),
            Call("web_fetcher", {"url": f"http://localhost:{port}/elsewhere"}),
            Call("web_fetcher", {"url": f"http://localhost:{port}/big"}),
        )
        self.assertFalse(good["is_error"], good)
        self.assertIn(SECRET, good["result"])
        self.assertTrue(redirected["is_error"], redirected)
        self.assertNotIn("/secret", self.asked)
        self.assertLess(len(big["result"]), 70_000)


class NonsenseTest(RunsTestCase):
    """Connections that send anything at all, while another client works undisturbed."""

    FRAMES = {
        "garbage bytes": os.urandom(4096),
        "a frame that is not masked": frame(b"{}", masked=False),
        "reserved bits": frame(b"{}", reserved=7),
        "an unknown opcode": frame(b"{}", 0x3),
        "a continuation of nothing": frame(b"{}", 0x0),
        "a fragmented ping": frame(b"", PING, final=False),
        "a ping that is too long": frame(b"x" * 200, PING),
        "text that is no UTF-8": frame(b"\xff\xfe\xfd"),
        "a close with a wrong code": frame(b"\x00\x01", CLOSE),
        "a close of one byte": frame(b"\x03", CLOSE),
        "a frame that says it is huge": b"\x81\xff" + b"\xff" * 8 + b"\0" * 4,
        "a hundred pongs": frame(b"", PONG) * 100,
        "a hundred empty frames": frame(b"") * 100,
        "binary nonsense": frame(os.urandom(1000), BINARY),
        "ten thousand fragments": frame(b"{", final=False) + frame(b" ", 0x0, final=False) * 10_000,
        "deep nesting": frame(b'{"type":"ping","id":' + b"[" * 50_000),
        "a number beyond all numbers": frame(b'{"type":"attach","id":"x","after":' + b"9" * 5_000 + b"}"),
        "every key at once": frame(json.dumps({f"k{n}": n for n in range(50_000)}).encode()),
        "an id of a megabyte": frame(json.dumps({"type": "nope", "id": "x" * 1_000_000}).encode()),
        "half a frame": frame(b"x" * 1000)[:500],
        "half a run": frame(b'{"type":"run","message":"' + b"x" * 100_000, TEXT, final=False),
    }

    def test_nobody_else_notices(self) -> None:
        runs = self.connect()
        with Bystander(self.server) as bystander:
            for name, data in self.FRAMES.items():
                with self.subTest(name):
                    for _ in range(3):
                        plug = upgrade(self.server)
                        self.addCleanup(plug.close)
                        try:
                            plug.sendall(data)
                        except ConnectionError:
                            pass  # Closed in the middle of it, which is an answer.
                    run = runs.run(f"after {name}")
                    self.assertEqual(run.reply, f"echo: after {name}")
                    self.assert_whole(run, "react")
                    bystander.is_served()
            for number in range(50):
                with raw_client.connect(side(self.server)) as plug:
                    plug.sendall(os.urandom(200) if number % 2 else b"GET / HTTP/1.1\r\nHost: ")
        self.assertGreater(bystander.pings, 20)
        self.assertLess(peak_memory(self.server), 150)

    def test_a_connection_full_of_bad_requests_stays_usable(self) -> None:
        runs = self.connect()
        for number in range(2_000):
            runs.send_raw(f'{{"type":"nope","id":"{number}"}}')
            if number % 100 == 99:
                for back in range(number - 99, number + 1):
                    self.assertEqual(runs.next_frame()["id"], str(back))
        self.assertEqual(runs.run("still there").reply, "echo: still there")

    def test_strangers_do_not_see_each_other_s_runs_by_accident(self) -> None:
        runs = self.connect()
        other = self.another()
        runs.run("mine")
        self.assertEqual(other.ask("ping", id="p"), {"type": "pong", "id": "p"})
        self.assertEqual(other.seen, [{"type": "pong", "id": "p"}])


if __name__ == "__main__":
    unittest.main()
