"""Plugins that mean harm, or are only badly made: each is held where it is, its caller is told why, the log names it,
and the rest of the server does not notice."""

from __future__ import annotations

import json
import threading
import unittest

from bridge_case import ALLOW
from channel_stand_ins import Late, Page, Redirect, StandIn
from gateway_client import Gateway
from plugin_support import (
    OPEN_LOOPBACK,
    TIMEOUT,
    Plugin,
    PluginTestCase,
    Pinging,
    Pulse,
    component,
    figures,
    in_time,
    resident,
    warnings,
)

# Time that no call needs, however busy the machine: what ends a call is the bound that is tested.
ENOUGH_TIME = 'plugin_time = "60s"'
LIMITS = f'[limits]\n{ENOUGH_TIME}\nplugin_memory = "32MiB"\nplugin_output = "1MiB"\nplugin_fuel = 50000000000\n'
# Where time is the bound that is tested.
SHORT = LIMITS.replace(ENOUGH_TIME, 'plugin_time = "1s"')
TOO_LONG = "plugin hostile ran longer than 1 s"
# Longer than any test waits: a call that ends was ended by something else.
ENDLESS = '[limits]\nplugin_time = "10m"\nplugin_fuel = 100000000000000\n'
# While calls that never end are under way.
PINGS = 100


class HostileTestCase(PluginTestCase):
    def hostile(self, *grants: str, limits: str = LIMITS, more: str = ALLOW, **options) -> Gateway:
        return self.serve(Plugin("hostile", grants=grants), Plugin("echo"), more=limits + more, **options)

    def contained(self, gateway: Gateway, what: str, *words: str, **arguments) -> str:
        """The tool fails, for this reason, which the log names; the server goes on as before."""
        request = self.begin(gateway, "hostile", what=what, **arguments)
        content, is_error = self.answer_of(gateway, request)
        self.assertTrue(is_error, content[:500])
        self.assertLess(len(content), 10_000)
        for word in words:
            self.assertIn(word, content)
        self.assertEqual(self.good("echo", gateway=gateway, text="still here"), "still here")
        return content

    def assert_logged(self, *words: str) -> None:
        in_time(lambda: warnings(self.server, "hostile", *words), f"a warning about hostile and {words}")


class ContainedTest(HostileTestCase):
    def test_an_endless_loop(self) -> None:
        gateway = self.hostile(limits=SHORT)
        self.contained(gateway, "loop", TOO_LONG)
        self.assert_logged("ran longer than 1 s")

    def test_an_endless_loop_of_host_calls(self) -> None:
        gateway = self.hostile(limits=SHORT)
        self.contained(gateway, "spin_host", TOO_LONG)
        self.assert_logged("ran longer than 1 s")

    def test_no_more_fuel(self) -> None:
        gateway = self.hostile(limits='[limits]\nplugin_time = "10m"\nplugin_fuel = 10000000\n')
        self.contained(gateway, "loop", "plugin hostile ran out of fuel (10000000)")
        self.assert_logged("ran out of fuel")

    def test_memory_that_grows(self) -> None:
        gateway = self.hostile()
        before = resident(self.server)
        self.contained(gateway, "grow", "plugin hostile used more than 32 MiB of memory")
        self.assert_logged("used more than 32 MiB")
        given_back = f"memory is given back ({before} MiB before)"
        in_time(lambda: resident(self.server) < before + 40, given_back)

    def test_a_huge_answer(self) -> None:
        gateway = self.hostile(limits=LIMITS.replace("32MiB", "256MiB"))
        self.contained(gateway, "huge", "plugin hostile returned more than 1 MiB")
        self.assert_logged("returned more than 1 MiB")

    def test_a_panic(self) -> None:
        gateway = self.hostile()
        self.contained(gateway, "panic", "plugin hostile panicked: ")
        self.assert_logged("panicked")
        self.assertNotIn("thread 'main' panicked at crates", self.server.log())

    def test_deep_recursion(self) -> None:
        gateway = self.hostile()
        self.contained(gateway, "recurse", "plugin hostile recursed too deep")
        self.assert_logged("recursed too deep")

    def test_an_exit(self) -> None:
        gateway = self.hostile()
        self.contained(gateway, "exit", "hostile")
        self.assertTrue(self.server.is_running)
        self.assert_logged("hostile")

    def test_an_abort(self) -> None:
        gateway = self.hostile()
        self.contained(gateway, "abort", "hostile")
        self.assertTrue(self.server.is_running)
        self.assert_logged("hostile")

    def test_a_stack_that_runs_into_memory(self) -> None:
        gateway = self.hostile()
        self.contained(gateway, "recurse_memory", "hostile")
        self.assert_logged("hostile")

    def test_memory_that_is_asked_for_politely_is_refused_in_time(self) -> None:
        gateway = self.hostile()
        content = self.good("hostile", gateway=gateway, what="grow_politely")
        taken = int(content.removeprefix("refused after ").split()[0])
        self.assertTrue(16 <= taken <= 32, content)

    def test_a_failure_of_its_own_is_just_a_failure(self) -> None:
        gateway = self.hostile()
        self.assertEqual(self.bad("hostile", gateway=gateway, what="error", text="no luck"), "no luck")

    def test_a_sleep(self) -> None:
        gateway = self.hostile(limits=SHORT)
        self.contained(gateway, "sleep", TOO_LONG, ms=600_000)

    def test_state_that_wants_to_stay(self) -> None:
        gateway = self.hostile()
        answers = {self.good("hostile", gateway=gateway, what="count") for _ in range(10)}
        self.assertEqual(len(answers), 1, answers)

    def test_a_flood_in_the_log(self) -> None:
        gateway = self.hostile()
        self.call("hostile", gateway, what="log_flood")
        self.assertEqual(self.good("echo", gateway=gateway, text="x"), "x")
        lines = [line for line in self.server.log().splitlines() if "hostile" in line]
        self.assertLess(len(lines), 130, "a hundred lines in a call, and no more")
        self.assertTrue(all(len(line) < 6000 for line in lines))

    def test_a_line_of_the_log_stays_one_line(self) -> None:
        gateway = self.hostile()
        self.good("hostile", gateway=gateway, what="log_lines")
        in_time(lambda: "forged" in self.server.log(), "what it wrote")
        (line,) = [line for line in self.server.log().splitlines() if "forged" in line]
        self.assertIn("hostile", line)
        self.assertIn("first", line)
        self.assertIn("end", line)
        self.assertNotIn("\x1b", self.server.log())

    def test_randomness_has_an_end(self) -> None:
        self.assertEqual(self.good("hostile", gateway=self.hostile(), what="random_flood"), str(64 * 1024))

    def test_a_store_has_an_end(self) -> None:
        gateway = self.hostile("store:notes")
        content = self.bad("hostile", gateway=gateway, what="store_flood", name="notes")
        self.assertIn("full: ", content)
        kept = int(content.removeprefix("after ").split(":")[0])
        self.assertTrue(50 <= kept <= 64, content)

    def test_a_flood_on_standard_output(self) -> None:
        gateway = self.hostile()
        for stream in ("stdout_flood", "stderr_flood"):
            self.call("hostile", gateway, what=stream)
            self.assertEqual(self.good("echo", gateway=gateway, text="x"), "x")
        self.assertLess(self.server.log_file.stat().st_size, 1 << 20)


class AuthorityTest(HostileTestCase):
    """Nothing of the machine is there for a plugin, whatever it tries."""

    def refused(self, gateway: Gateway, what: str, *secrets: str, **arguments) -> str:
        content, _ = self.call("hostile", gateway, what=what, **arguments)
        for secret in secrets:
            self.assertNotIn(secret, content)
        self.assertEqual(self.good("echo", gateway=gateway, text="x"), "x")
        return content

    def test_files_and_folders(self) -> None:
        gateway = self.hostile()
        inside = str(self.server.folder / "made.txt")
        for what, path in (
            ("read_file", "/etc/passwd"),
            ("read_file", "patchboard.toml"),
            ("read_file", str(self.server.config_file)),
            ("write_file", inside),
            ("write_file", "made.txt"),
            ("list_folder", "/"),
            ("list_folder", "."),
            ("list_folder", str(self.server.folder)),
        ):
            with self.subTest(what=what, path=path):
                content, is_error = self.call("hostile", gateway, what=what, path=path)
                self.assertTrue(is_error, content)
                self.assertNotRegex(content, r"root:|agents|plugins\n")
        self.assertFalse((self.server.folder / "made.txt").exists())

    def test_the_environment(self) -> None:
        gateway = self.hostile(env={"CANARY_IN_ENVIRONMENT": "canary-value"})
        content = self.refused(gateway, "list_env", "canary", "CANARY", "PATH", "HOME", "STUB_MODEL_KEY")
        found = json.loads(content)
        self.assertEqual((found["variables"], found["arguments"]), ([], []))
        self.assertNotIn("patchboard", found["folder"])

    def test_sockets(self) -> None:
        with StandIn() as target:
            gateway = self.hostile("http:127.0.0.1", more=OPEN_LOOPBACK + ALLOW)
            content, is_error = self.call("hostile", gateway, what="connect", address=f"127.0.0.1:{target.port}")
            self.assertTrue(is_error, content)
            self.assertEqual(target.requests, [])
            for what, more in (("listen", {}), ("resolve", {"address": "localhost:80"})):
                content, is_error = self.call("hostile", gateway, what=what, **more)
                self.assertTrue(is_error, content)

    def test_threads_and_processes(self) -> None:
        gateway = self.hostile()
        for what in ("spawn_thread", "spawn_process"):
            with self.subTest(what):
                content, is_error = self.call("hostile", gateway, what=what)
                self.assertTrue(is_error, content)
                self.assertNotIn("uid=", content)

    def test_standard_input(self) -> None:
        content, _ = self.call("hostile", self.hostile(), what="read_stdin")
        self.assertLess(len(content), 300)

    def test_a_host_that_is_not_granted(self) -> None:
        with StandIn() as granted, StandIn() as other:
            gateway = self.hostile(granted.grant, more=OPEN_LOOPBACK + ALLOW)
            for url in (f"{other.url}/x", f"http://localhost:{granted.port}/x", "http://example.com/"):
                with self.subTest(url):
                    content, is_error = self.call("hostile", gateway, what="http", url=url)
                    self.assertTrue(is_error, content)
                    self.assertIn("grant", content)
            self.assertEqual((granted.requests, other.requests), ([], []))
            self.assert_logged(f"127.0.0.1:{other.port}")

    def test_a_redirect_to_a_host_that_is_not_granted(self) -> None:
        with StandIn() as granted, StandIn() as other:
            gateway = self.hostile(granted.grant, more=OPEN_LOOPBACK + ALLOW)
            for target in (f"{other.url}/secret", f"http://localhost:{granted.port}/secret"):
                with self.subTest(target):
                    granted.next(Redirect(target))
                    content, is_error = self.call("hostile", gateway, what="http", url=f"{granted.url}/away")
                    self.assertTrue(is_error, content)
                    self.assertIn("grant", content)
            self.assertEqual([one.path for one in granted.requests], ["/away", "/away"])
            self.assertEqual(other.requests, [])
            self.assert_logged("grant")

    def test_a_redirect_within_what_is_granted_is_followed(self) -> None:
        with StandIn() as granted:
            gateway = self.hostile(granted.grant, more=OPEN_LOOPBACK + ALLOW)
            granted.next(Redirect(f"{granted.url}/there"), Page(b"made it"))
            self.assertIn("made it", self.good("hostile", gateway=gateway, what="http", url=f"{granted.url}/here"))

    def test_a_server_that_never_ends_its_answer(self) -> None:
        with StandIn() as granted:
            release = threading.Event()
            self.addCleanup(release.set)
            gateway = self.hostile(granted.grant, limits=SHORT, more=OPEN_LOOPBACK + ALLOW)
            granted.next(Late(release))
            content, is_error = self.call("hostile", gateway, what="http", url=f"{granted.url}/slow")
            self.assertTrue(is_error, content)


class DescribeTest(PluginTestCase):
    """Trouble when a plugin is asked what it has: it is not loaded, and everybody knows why."""

    KINDS = ("loop", "panic", "bad-schema", "bad-name", "huge", "many", "dup")

    def test_malformed_descriptions_are_refused_with_a_reason(self) -> None:
        plugins = [Plugin(f"describe-{kind}", data=component(f"hostile-describe-{kind}")) for kind in self.KINDS]
        gateway = self.serve(*plugins, Plugin("echo"), more=LIMITS.replace(ENOUGH_TIME, 'plugin_time = "2s"'))
        listed = self.plugins(gateway)
        for kind in self.KINDS:
            with self.subTest(kind):
                found = listed[f"describe-{kind}"]
                self.assertEqual((found["state"], found["tools"]), ("refused", []), found)
                self.assertTrue(found["error"], found)
                self.assertLess(len(found["error"]), 2000)
                in_time(lambda: warnings(self.server, f"describe-{kind}"), f"{kind} is in the log")
                print(f"describe-{kind}: {found['error']}", flush=True)
        self.assertEqual(listed["echo"]["state"], "ready")
        self.assertEqual(gateway.result("status")["plugins"], 1)
        self.assertEqual(self.good("echo", gateway=gateway, text="x"), "x")
        offered = sorted(name for name, tool in self.tools(gateway).items() if tool["kind"] == "wasm")
        self.assertEqual(offered, sorted(listed["echo"]["tools"]))

    def test_the_server_does_not_wait_long_for_one_that_never_ends(self) -> None:
        plugin = Plugin("describe-loop", data=component("hostile-describe-loop"))
        self.server = self.prepare(plugin.config + ENDLESS, plugin).start()
        with Gateway(self.server) as gateway:
            self.assertEqual(gateway.result("ping"), "pong")
            found = self.settled(gateway, "describe-loop", "refused")
            self.assertIn("ran longer than 5 s", found["error"])


class TogetherTest(HostileTestCase):
    def check(self, name: str, whats: list[dict]) -> None:
        """Ten calls at once: each is ended at its bound and named in the log, and every ping meanwhile is answered."""
        gateway = self.hostile(limits=SHORT)
        before = resident(self.server)
        requests = self.begin_all(gateway, whats)
        with Pinging(self.server) as pinging:
            answers = [self.answer_of(gateway, request) for request in requests]
        print(f"\nten at once, {name}: {figures(pinging.beats)}", flush=True)
        for what, (content, is_error) in zip(whats, answers):
            self.assertTrue(is_error, f"{what}: {content[:300]}")
            self.assertIn("hostile", content)
        in_time(lambda: len(warnings(self.server, "hostile")) >= len(whats), "each is in the log")
        self.assertEqual(self.good("echo", gateway=gateway, text="still here"), "still here")
        given_back = f"memory is given back ({before} MiB before)"
        in_time(lambda: resident(self.server) < before + 64, given_back)
        print(f"memory: {before} MiB before, {resident(self.server)} MiB after", flush=True)

    def check_endless(self, what: str) -> None:
        """Pings and other plugins are answered while ten calls are under way that would not end by themselves."""
        gateway = self.hostile(limits=ENDLESS)
        requests = self.begin_all(gateway, [{"what": what}] * 10)
        other = self.another()
        in_time(lambda: self.plugins(other)["hostile"]["calls"] == 10, "all have begun")
        pulse = Pulse(self.server)
        self.addCleanup(pulse.close)
        beats = [pulse.beat() for _ in range(PINGS)]
        print(f"\nten at once that do not end, {what}: {figures(beats)}", flush=True)
        self.assertEqual(self.good("echo", gateway=other, text="at the same time"), "at the same time")
        for request in requests:
            gateway.result("chat.cancel", id=request)
            results = gateway.turn(request, TIMEOUT).data("tool_result")
            self.assertEqual([one["content"] for one in results], ["cancelled"], "it was under way until now")

    def begin_all(self, gateway: Gateway, whats: list[dict]) -> list[str]:
        requests = [self.begin(gateway, "hostile", account=f"a{at}", **what) for at, what in enumerate(whats)]
        for request in requests:
            gateway.until(request, "tool_use", TIMEOUT)
        return requests

    def test_ten_endless_loops(self) -> None:
        self.check("loop", [{"what": "loop"}] * 10)
        self.check_endless("loop")

    def test_ten_endless_loops_of_host_calls(self) -> None:
        self.check("spin_host", [{"what": "spin_host"}] * 10)
        self.check_endless("spin_host")

    def test_ten_that_grow(self) -> None:
        self.check("grow", [{"what": "grow"}] * 10)

    def test_ten_of_all_kinds(self) -> None:
        kinds = ("loop", "grow", "huge", "panic", "recurse", "spin_host", "loop", "grow", "exit", "recurse")
        self.check("all kinds", [{"what": kind} for kind in kinds])

    def test_more_than_may_run_at_once_wait_their_turn(self) -> None:
        gateway = self.hostile(limits='[limits]\nplugin_time = "2s"\nplugin_calls = 4\n')
        requests = [self.begin(gateway, "hostile", account=f"a{at}", what="loop") for at in range(8)]
        good = self.begin(gateway, "echo", account="good", text="patient")
        for request in requests:
            content, is_error = self.answer_of(gateway, request)
            self.assertTrue(is_error, content)
        self.assertEqual(self.answer_of(gateway, good), ("patient", False))

    def test_a_chat_that_is_cancelled_stops_its_call(self) -> None:
        gateway = self.hostile(limits=ENDLESS + "plugin_calls = 1\n")
        request = self.begin(gateway, "hostile", what="loop")
        gateway.until(request, "tool_use")
        gateway.result("chat.cancel", id=request)
        gateway.turn(request)
        # With one place only, the next call shows that it is free again, long before the loop's own time is over.
        self.assertEqual(self.good("echo", gateway=gateway, account="bob", text="x"), "x")

    def test_a_stop_of_the_server_does_not_wait_for_a_loop(self) -> None:
        gateway = self.hostile(limits=ENDLESS, before='drain = "1s"\n')
        request = self.begin(gateway, "hostile", what="loop")
        gateway.until(request, "tool_use")
        self.assertEqual(self.server.terminate(), 0)


class QuietTest(HostileTestCase):
    def test_arguments_are_not_in_the_log(self) -> None:
        gateway = self.hostile(limits=SHORT)
        self.call("hostile", gateway, what="error", value="argument-canary")
        self.call("hostile", gateway, what="loop", value="argument-canary")
        self.assertNotIn("argument-canary", self.server.log())
        self.assertNotIn("argument-canary", json.dumps(self.plugins(gateway)))


if __name__ == "__main__":
    unittest.main()
