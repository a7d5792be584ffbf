"""What the server runs cannot reach the server or other programs by any way the kernel offers, and ordinary work goes on.

The same file runs as root and as an ordinary user: `AsAnotherUser` starts it once more as nobody where this is root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from bridge_case import WORKERS
from gateway_client import eventually
from jail_case import FOR_SERVERS, HERE, PACKAGES, SDK, JailTestCase, quoted
from patchboard_server import binary

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
# What is run once more.
CASES = ["test_jail.AttackTest", "test_jail.CommandTest", "test_jail_lines.LinesTest", "test_jail_links.LinksTest"]


class AttackTest(JailTestCase):
    def test_a_command_reaches_nothing_outside_its_jail(self) -> None:
        self.start()
        given = self.targets()
        attack = f"{sys.executable} {HERE}/jail_attacks.py {given['server']} {given['port']} {given['path']}"
        end = self.bash(attack)
        self.assertFalse(end["is_error"], end)
        self.check(json.loads(end["result"].splitlines()[0]))

    def test_nor_where_it_may_listen_connect_anywhere_and_use_sockets(self) -> None:
        self.start("connect_any = true\nlisten = true\nunix_sockets = true\n")
        given = self.targets()
        attack = f"{sys.executable} {HERE}/jail_attacks.py {given['server']} {given['port']} {given['path']}"
        end = self.bash(attack)
        self.check(json.loads(end["result"].splitlines()[0]), FOR_SERVERS)

    def test_a_worker_reaches_nothing_outside_its_jail(self) -> None:
        command = quoted([sys.executable, "-m", "patchboard.worker", "jail_tools.py"])
        environment = f'env = {{ PYTHONPATH = "{os.pathsep.join([str(SDK), *PACKAGES])}" }}\n'
        workers = f'[[workers]]\nname = "py"\ncommand = {command}\nworking_folder = "{WORKERS}"\n{environment}'
        self.start(workers, bridge="127.0.0.1:0")
        self.wait_for("attack")
        end = self.call("attack", self.targets())
        self.check(json.loads(end["result"]), FOR_SERVERS)

    def test_an_mcp_server_reaches_nothing_outside_its_jail(self) -> None:
        command = quoted([sys.executable, str(HERE / "jail_mcp.py")])
        self.start(f'[mcp.attacker]\ncommand = {command}\nenv = {{ PYTHONPATH = "{os.pathsep.join(PACKAGES)}" }}\n')
        self.wait_for("attacker.attack")
        end = self.call("attacker.attack", self.targets())
        self.check(json.loads(end["result"]), FOR_SERVERS)

    def wait_for(self, tool: str) -> None:
        def offered() -> bool:
            listed = self.runs.ask("tools_list", id="t", working_folder=str(self.work))
            return tool in json.dumps(listed)

        eventually(offered, f"the tool {tool}", 120)


class CommandTest(JailTestCase):
    def test_others_are_not_seen(self) -> None:
        self.start()
        end = self.bash("ls /proc | grep -c '^[0-9]'; echo self $$")
        number = int(end["result"].split()[0])
        if self.bash(f"test -e /proc/{self.server.pid} && echo there")["result"].startswith("there"):
            # Then no other program may be able to have them either.
            alone = ["unshare", "-pf", "--mount-proc", "true"]
            alone = alone if os.geteuid() == 0 else ["unshare", "-Urpf", "--mount-proc", "true"]
            self.assertNotEqual(subprocess.run(alone, capture_output=True).returncode, 0, "namespaces can be had here")
            self.skipTest("this system gives commands no PID namespace, or no /proc of their own")
        self.assertLess(number, 10, end)

    def test_a_refused_socket_names_the_key_that_allows_it(self) -> None:
        self.start()
        end = self.bash(f'{sys.executable} -c "import socket; socket.socket(socket.AF_UNIX)"')
        self.assertTrue(end["is_error"])
        self.assertIn("tools.bash.unix_sockets", end["result"])

    def test_with_the_key_it_connects(self) -> None:
        self.start("unix_sockets = true\n")
        connect = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{self.path}'); print('connected')"
        self.assertIn("connected", self.bash(f'{sys.executable} -c "{connect}"')["result"])

    def test_signals_within_are_as_usual(self) -> None:
        self.start()
        end = self.bash("sleep 600 & kill $!; wait $!; echo ended with $?; trap 'echo heard' USR1; kill -USR1 $$; true")
        self.assertIn("ended with 143\nheard\n", end["result"])

    def test_everyday_work(self) -> None:
        """Twenty things that agents do all day."""
        self.start()
        python = sys.executable
        asynchronous = (
            "import asyncio, threading; t = threading.Thread(target=print, args=('thread',)); t.start(); t.join(); "
            "asyncio.run(asyncio.sleep(0)); print('loop')"
        )
        processes = (
            "import multiprocessing, os\\nif __name__ == '__main__':\\n"
            " with multiprocessing.Pool(2) as pool: print(sum(pool.map(abs, [-1, -2])))\\n"
        )
        everyday = {
            "files": ("mkdir -p a/b && echo hi > a/b/c && cp -r a d && mv d e && cat e/b/c && rm -r e", "hi"),
            "find and sed": ("printf 'x\\n' > f && sed -i s/x/y/ f && find . -name f | xargs grep -c y", "1"),
            "archives": ("echo hi > f && tar czf f.tgz f && rm f && tar xzf f.tgz && cat f", "hi"),
            "permissions": ("touch s && chmod 755 s && stat -c %a s", "755"),
            "links": ("echo hi > f && ln -sf f l && ln f h && cat l h | sort -u", "hi"),
            "pipes": ("seq 1000 | sort -rn | head -n 1", "1000"),
            "background": ("sleep 0.01 & wait && echo waited", "waited"),
            "limits": ("ulimit -n 100 && ulimit -n", "100"),
            "niceness": ("nice -n 5 nice", "5"),
            "timeouts": ("timeout 0.1 sleep 60; echo $?", "124"),
            "git": (
                "git init -q r && cd r && echo hi > f && git add f && "
                "git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline | wc -l",
                "1",
            ),
            "python": (f"{python} -c 'print(6 * 7)'", "42"),
            "python with threads and asyncio": (f'{python} -c "{asynchronous}"', "loop"),
            "python with processes": (f"printf \"{processes}\" > p.py && {python} p.py", "3"),
            "a virtual environment": (f"{python} -m venv --without-pip v && v/bin/python -c 'print(1 + 1)'", "2"),
            "databases": (
                f"{python} -c \"import sqlite3; d = sqlite3.connect('x.db'); d.execute('create table t (a)'); "
                "print(d.execute('select count(*) from t').fetchone()[0])\"",
                "0",
            ),
            "c": (
                "printf 'int puts(const char*); int main(){puts(\"built\");}' > x.c && cc -o x x.c && ./x",
                "built",
            ),
            "make": ("printf 'all:\\n\\t@echo made\\n' > Makefile && make -s -j2", "made"),
            "name look-ups": ("getent hosts localhost | wc -l", "1"),
            "who and when": ("id -u > u && date +%Y > y && test -s u && test -s y && echo both", "both"),
        }
        node = shutil.which("node")
        if node and node.startswith("/usr/"):
            everyday["node"] = (
                "node -e \"require('child_process').execFile('echo', ['hi'], (e, out) => console.log(out.trim()))\"",
                "hi",
            )
        self.assertGreaterEqual(len(everyday), 20)
        for name, (command, expected) in everyday.items():
            with self.subTest(name):
                end = self.bash(f"mkdir -p {self.work}/t && cd {self.work}/t && {command}; rm -rf {self.work}/t/*")
                if "command not found" in end["result"]:
                    continue
                self.assertIn(expected, end["result"].splitlines(), end["result"])


class AsAnotherUser(unittest.TestCase):
    def test_the_same_as_an_ordinary_user(self) -> None:
        if os.geteuid() != 0:
            self.skipTest("this is an ordinary user already")
        folder = Path(tempfile.mkdtemp(prefix="pb-jail-user-"))
        self.addCleanup(shutil.rmtree, folder, True)
        os.chmod(folder, 0o755)
        program = folder / "patchboard"
        shutil.copy(binary(), program)
        os.chmod(program, 0o755)
        home = folder / "home"
        home.mkdir()
        os.chown(home, NOBODY, NOBODY)
        environment = {
            **os.environ,
            "PATCHBOARD_BIN": str(program),
            "PYTHONPATH": os.pathsep.join(PACKAGES),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(home),
            "TMPDIR": str(home),
        }
        python = self.reachable_python(environment)
        run = subprocess.run(
            [*AS_NOBODY, python, "-m", "unittest", "-v", *CASES],
            cwd=HERE,
            env=environment,
            capture_output=True,
            timeout=600,
        )
        self.assertEqual(run.returncode, 0, run.stderr.decode()[-8000:])

    def reachable_python(self, environment: dict[str, str]) -> str:
        """One that another user can run, with the packages of these tests: their own may lie in somebody's home."""
        said = []
        for python in ("/usr/bin/python3", os.path.realpath(sys.executable)):
            tried = [*AS_NOBODY, python, "-c", f"open({__file__!r}).close(); import grpc, mcp, websockets"]
            try:
                trial = subprocess.run(tried, env=environment, capture_output=True)
            except OSError as error:
                said.append(f"{python}: {error}")
                continue
            if trial.returncode == 0:
                return python
            said.append(f"{python}: {trial.stderr.decode()[-200:]}")
        raise unittest.SkipTest(f"another user cannot run these tests: {said}")


if __name__ == "__main__":
    unittest.main()
