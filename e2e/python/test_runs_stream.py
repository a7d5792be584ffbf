"""Runs as streams: complete for slow readers, alive while they work, stopped when told to, and found again."""

from __future__ import annotations

import json
import socket
import sys
import time
import unittest

from gateway_client import eventually
from raw_client import frame, peak_memory
from runs_case import RunsTestCase
from runs_client import TIMEOUT, Bystander, Run, Runs, is_established, processes_with, seconds_mark, upgrade
from stub_model import Call, Failure, Hold, Reply, Text

EVENTS = 5_000
BIG = "word " * 200


def told(text: str) -> None:
    """A figure for whoever reads the log of the tests."""
    print(f"measured: {text}", file=sys.stderr)


class CompleteTest(RunsTestCase):
    def words(self, count: int = EVENTS) -> list[Text]:
        return [Text(f"{number} ") for number in range(count)]

    def test_a_fast_reader_gets_every_event(self) -> None:
        runs = self.connect(Reply(*self.words(), output_tokens=EVENTS))
        run = runs.run("count", timeout=60)
        self.assert_whole(run, "react")
        self.assert_all_there(run)

    def assert_all_there(self, run: Run) -> None:
        self.assertEqual(run.reply, "".join(word.text for word in self.words()))
        self.assertEqual([event["content"] for event in run.of("message_chunk")], [word.text for word in self.words()])

    def test_a_slow_reader_loses_nothing(self) -> None:
        self.connect(Reply(*self.words(), output_tokens=EVENTS))
        runs = self.slow_client()
        with Bystander(self.server) as bystander:
            runs.start("count")
            run = None
            while run is None or run.ending is None:
                run = runs.read(run)
                if len(run.frames) % 10 == 0:
                    # This reader is slow; that is what it is here for.
                    time.sleep(0.002)
                if len(run.frames) == EVENTS // 2:
                    bystander.is_served()
        self.assert_whole(run, "react")
        self.assert_all_there(run)

    def slow_client(self) -> Runs:
        """One that takes little into its own buffers, so that its slowness reaches the server."""
        host, port = self.server.address("runs").rsplit(":", 1)
        plug = socket.socket()
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plug.connect((host, int(port)))
        return self.another(sock=plug, max_queue=1)

    def test_a_reader_that_pauses_pauses_its_run_and_costs_little(self) -> None:
        # Far more than the buffers between the two ends hold.
        many = 8 * EVENTS
        words = [Text(f"word number {number} of {'very ' * 10}many ") for number in range(many)]
        watcher = self.connect(Reply(*words))
        slow = self.slow_client()
        before = peak_memory(self.server)
        slow.start("slow")
        run = slow.until("message_chunk")
        # Who watches sees how far the run is: nowhere near its end, as long as its own client does not read.
        watched = watcher.attach(run.id)
        with self.assertRaises(TimeoutError):
            while watched.ending is None:
                watcher.read(watched, 1.0)
        grown = peak_memory(self.server) - before
        told(f"a run waits for its reader after {len(watched.frames)} of {many} events and costs {grown} MB")
        self.assertLess(len(watched.frames), many)
        self.assertLess(grown, 40)
        run = slow.finish(run, 100)
        self.assert_whole(run, "react")
        self.assertEqual(run.reply, "".join(word.text for word in words))
        self.assertEqual(watcher.finish(watched, 100).frames, run.frames)

    def test_tools_and_text_keep_the_model_s_order(self) -> None:
        steps = [Text("one "), Call("ls", {}, "a"), Text("two "), Call("glob", {"pattern": "*"}, "b"), Text("three")]
        runs = self.connect(Reply(*steps), Reply(Text("done")))
        run = runs.run("go", working_folder=str(self.work))
        self.assert_whole(run, "react")
        first = run.events[: next(at for at, one in enumerate(run.events) if one["type"] == "node_exit")]
        order = []
        for event in first:
            if event["type"] == "message_chunk":
                order.append(event["content"])
            # Every piece of a call has its name; pieces of one call come one after the other.
            elif event["type"] == "tool_call_chunk" and order[-1:] != [event["name"]]:
                order.append(event["name"])
        self.assertEqual(order, ["one ", "ls", "two ", "glob", "three"])
        self.assertEqual([event["name"] for event in run.of("tool_call")], ["ls", "glob"])


class AliveTest(RunsTestCase):
    def begin(self) -> Runs:
        self.release = self.held()
        runs = self.connect(Reply(Text("a"), Hold(self.release), Text("b")))
        runs.start("go", id="working")
        self.run_ = runs.until("message_chunk")
        return runs

    def test_everything_but_a_run_is_answered_at_once(self) -> None:
        runs = self.begin()
        self.assertEqual(runs.ask("ping", id="p"), {"type": "pong", "id": "p"})
        self.assertEqual(runs.ask("tools_list", id="l")["type"], "tools_list")
        self.assertEqual(runs.ask("tool_show", id="s", name="read")["type"], "tool_show")
        self.assertEqual(runs.ask("user_messages", id="u", thread_id="t")["type"], "user_messages")
        self.assertEqual(runs.ask("tool_show", id="e", name="none")["type"], "error")
        runs.send_raw("garbage")
        self.assertTrue(runs.next_frame()["error"].startswith("parse error: "))
        self.assertTrue(runs.socket.ping().wait(TIMEOUT), "a ping of the WebSocket")
        self.assertFalse(self.release.is_set())
        self.release.set()
        run = runs.finish(self.run_)
        self.assertEqual(run.reply, "ab")
        self.assert_whole(run, "react")

    def test_a_further_run_waits_its_turn(self) -> None:
        runs = self.begin()
        for number in range(3):
            runs.start(f"number {number}", id=f"waiting {number}")
        self.assertEqual(runs.ask("ping", id="p")["type"], "pong")
        self.assertEqual(len(self.model.requests), 1, "they wait")
        self.release.set()
        run = runs.finish(self.run_)
        for number in range(3):
            later = runs.finish(Run(f"waiting {number}"))
            self.assertEqual(later.reply, f"echo: number {number}")
            self.assert_whole(later, "react")
        endings = [one["id"] for one in runs.seen if one["type"] == "run_end"]
        self.assertEqual(endings, ["working", "waiting 0", "waiting 1", "waiting 2"])
        starts = [
            (at, one["id"])
            for at, one in enumerate(runs.seen)
            if one["type"] == "run_stream_event" and one["event"]["type"] == "run_start"
        ]
        ends = [at for at, one in enumerate(runs.seen) if one["type"] == "run_end"]
        self.assertTrue(all(start > end for (start, _), end in zip(starts[1:], ends)), "one run at a time")
        self.assertEqual(run.reply, "ab")

    def test_however_many_wait_each_comes_to_one_end(self) -> None:
        runs = self.begin()
        names = [f"waiting {number}" for number in range(40)]
        for name in names:
            runs.start(name, id=name)
        self.assertEqual(runs.ask("ping", id="p")["type"], "pong")
        self.release.set()
        ended = [runs.finish(Run(name)) for name in names]
        done = [run for run in ended if run.ending["type"] == "run_end"]
        self.assertGreaterEqual(len(done), 8)
        for run in ended:
            self.assertTrue(run.reply if run in done else not run.frames and run.error)
        endings = [one["id"] for one in runs.seen if one["type"] in ("run_end", "error")]
        self.assertEqual(sorted(endings), sorted(["working", *names]))

    def test_the_id_of_a_waiting_run_is_taken(self) -> None:
        runs = self.begin()
        runs.start("first", id="same")
        runs.start("second", id="same")
        refused = runs.next_frame()
        self.assertEqual((refused["type"], refused["id"]), ("error", "same"))
        self.release.set()
        self.assertEqual(runs.finish(Run("same")).reply, "echo: first")

    def test_a_waiting_run_can_be_cancelled(self) -> None:
        runs = self.begin()
        runs.start("waiting", id="waiting")
        runs.ask("ping")
        runs.send({"type": "cancel", "id": "waiting"})
        ended = runs.finish(Run("waiting"))
        self.assertEqual(ended.ending["type"], "error")
        self.release.set()
        self.assertEqual(runs.finish(self.run_).reply, "ab")
        self.assertEqual(len(self.model.requests), 1)

    def test_runs_of_other_connections_do_not_wait(self) -> None:
        self.begin()
        with self.another() as other:
            self.assertEqual(other.run("hi").reply, "echo: hi")


class CancelTest(RunsTestCase):
    def test_while_the_model_speaks(self) -> None:
        runs = self.connect(Reply(Text("a"), Hold(self.held()), Text("b")))
        runs.start("go")
        run = runs.until("message_chunk")
        self.cancel(runs, run)
        self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT), "the model is still asked")

    def cancel(self, runs: Runs, run: Run) -> None:
        """Ends a run whose model would not end by itself."""
        runs.send({"type": "cancel", "id": run.id})
        ended = runs.finish(run)
        self.assertEqual(list(ended.ending), ["type", "id", "error"], ended.ending)
        self.assertIn("cancelled", ended.error)
        self.assertEqual(ended.event_ids, list(range(1, len(ended.frames) + 1)))
        # Nothing more comes for this run, and the connection serves on.
        self.assertEqual(runs.ask("ping", id="p")["type"], "pong")
        self.assertEqual(runs.seen[-2], ended.ending)
        self.assertEqual(runs.run("next").reply, "echo: next")

    def sleeping(self, **options) -> tuple[Runs, Run, str]:
        """A run in the middle of a `bash` that sleeps; the mark is in the command line of its processes."""
        mark = seconds_mark()
        command = f"sleep {mark} & sleep {mark}; echo never"
        runs = self.connect(Reply(Call("bash", {"command": command})), **options)
        runs.start("sleep", working_folder=str(self.work))
        run = runs.until("tool_start")
        eventually(lambda: len(processes_with(f"sleep\0{mark}")) == 2, "two sleeping processes", TIMEOUT)
        return runs, run, mark

    def gone(self, mark: str) -> None:
        eventually(lambda: not processes_with(mark), "the tool's processes are gone", TIMEOUT)

    def test_while_bash_sleeps(self) -> None:
        runs, run, mark = self.sleeping()
        runs.send({"type": "cancel", "id": run.id})
        self.gone(mark)
        ended = runs.finish(run)
        self.assertEqual(ended.ending["type"], "error")
        self.assertEqual(runs.run("next").reply, "echo: next")

    def test_from_another_connection(self) -> None:
        runs, run, mark = self.sleeping()
        with self.another() as other:
            other.send({"type": "cancel", "id": run.id})
            self.gone(mark)
        self.assertEqual(runs.finish(run).ending["type"], "error")

    def test_a_run_nobody_knows(self) -> None:
        runs = self.connect()
        for kind, more in (
            ("cancel", {}),
            ("attach", {"after": 0}),
            ("tool_approve", {"call_id": "c", "approve": True}),
        ):
            answer = runs.ask(kind, id="nobody", **more)
            self.assertEqual((list(answer), answer["id"]), (["type", "id", "error"], "nobody"))
        finished = runs.run("hi")
        answer = runs.ask("cancel", id=finished.id)
        self.assertEqual(answer["type"], "error", "it is over")

    def test_in_every_strategy(self) -> None:
        # The others begin with work that is not for the user.
        first = {"react": "message_chunk", "dup": "thought_chunk", "tot": "thought_chunk", "got": "thought_chunk"}
        for agent, chunk in first.items():
            with self.subTest(agent):
                runs = self.connect(Reply(Text("a"), Hold(self.held()), Text("b")))
                runs.start("go", agent)
                run = runs.until(chunk)
                runs.send({"type": "cancel", "id": run.id})
                self.assertEqual(runs.finish(run).ending["type"], "error")
                self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT), "the model is still asked")


class LeavingTest(RunsTestCase):
    def begin(self, **fields: object) -> tuple[Runs, Run]:
        self.release = self.held()
        runs = self.connect(Reply(Text("a"), Hold(self.release), Text("b")))
        runs.start("go", **fields)
        return runs, runs.until("message_chunk")

    def test_a_disconnect_cancels_the_run(self) -> None:
        for leave in (Runs.close, Runs.abort):
            with self.subTest(leave.__name__):
                runs, run = self.begin()
                leave(runs)
                self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT), "the model is still asked")
                with self.another() as later:
                    ended = later.attached(run.id)
                    self.assertEqual(ended.ending["type"], "error")
                    self.assertEqual(ended.events[: len(run.events)], run.events)

    def test_a_disconnect_stops_its_tools(self) -> None:
        mark = seconds_mark()
        runs = self.connect(Reply(Call("bash", {"command": f"sleep {mark}"})))
        runs.start("sleep", working_folder=str(self.work))
        runs.until("tool_start")
        eventually(lambda: processes_with(f"sleep\0{mark}"), "a sleeping process", TIMEOUT)
        runs.abort()
        eventually(lambda: not processes_with(mark), "the process is gone", TIMEOUT)

    def test_detached_it_goes_on(self) -> None:
        for leave in (Runs.close, Runs.abort):
            with self.subTest(leave.__name__):
                runs, run = self.begin(detach=True)
                leave(runs)
                with self.another() as later:
                    attached = later.until("message_chunk", later.attach(run.id))
                    self.assertFalse(self.model.requests[0].gone.is_set())
                    self.release.set()
                    ended = later.finish(attached)
                self.assertEqual(ended.reply, "ab")
                self.assert_whole(ended, "react")
                self.assertEqual(ended.events[: len(run.events)], run.events)

    def test_detach_false_and_null_are_no_detach(self) -> None:
        for value in (False, None):
            with self.subTest(value):
                runs, _ = self.begin(detach=value)
                runs.close()
                self.assertTrue(self.model.requests[0].gone.wait(TIMEOUT), "the model is still asked")

    def test_a_run_that_waits_is_cancelled_with_its_connection(self) -> None:
        runs, run = self.begin()
        runs.start("waiting", id="waiting")
        runs.ask("ping")
        runs.close()
        with self.another() as later:
            self.assertEqual(later.attached(run.id).ending["type"], "error")
            self.assertEqual(later.run("hi").reply, "echo: hi")
        self.assertEqual([one.last_user_text for one in self.model.requests], ["go", "hi"])

    def test_a_server_that_goes_says_so_and_closes_with_1001(self) -> None:
        runs = self.connect(Reply(Text("a"), Hold(self.held())), before='drain = "500ms"\n')
        runs.start("go", id="held")
        runs.until("message_chunk")
        idle, watcher = self.another(), self.another()
        watcher.until("message_chunk", watcher.attach("held"))
        self.server.process.terminate()
        codes = {"idle": idle.closed_with(), "at work": runs.closed_with(), "watching": watcher.closed_with()}
        # The run is not over, so no end of it is told: it goes on at the next start.
        for one in (runs, watcher):
            self.assertEqual((one.seen[-1]["type"], one.seen[-1]["id"]), ("run_stream_event", "held"))
        self.assertEqual(self.server.process.wait(TIMEOUT), 0)
        self.assertEqual(codes, dict.fromkeys(codes, 1001))

    def test_who_only_watches_may_leave(self) -> None:
        runs, run = self.begin()
        with self.another() as watcher:
            watcher.until("message_chunk", watcher.attach(run.id))
        self.release.set()
        self.assertEqual(runs.finish(run).reply, "ab")


class AttachTest(RunsTestCase):
    def test_a_finished_run_comes_back_from_any_event_on(self) -> None:
        runs = self.connect(Reply(Text("a"), Call("ls", {})), Reply(Text("b"), Text("c")))
        run = runs.run("go", working_folder=str(self.work))
        self.assert_whole(run, "react")
        with self.another() as other:
            for after in range(len(run.events) + 1):
                again = other.attached(run.id, after)
                self.assertEqual(again.frames, run.frames[after:])
                self.assertEqual(again.ending, run.ending)
                self.assertEqual(json.dumps(again.frames), json.dumps(run.frames[after:]), "the order of keys")
            beyond = other.attached(run.id, len(run.events) + 1000)
            self.assertEqual((beyond.frames, beyond.ending), ([], run.ending))

    def test_a_checkpoint_comes_back_as_it_was(self) -> None:
        runs = self.connect()
        # Its id is made from the time; one that happens to be the same proves little.
        for number in range(5):
            run = runs.run("hi", thread_id=f"t{number}")
            (checkpoint,) = run.of("checkpoint")
            self.assertEqual(runs.attached(run.id).of("checkpoint"), [checkpoint])

    def test_without_after_it_comes_from_the_start(self) -> None:
        runs = self.connect()
        run = runs.run("hi")
        runs.send({"type": "attach", "id": run.id})
        again = runs.finish(Run(run.id))
        self.assertEqual((again.frames, again.ending), (run.frames, run.ending))

    def test_a_failed_run_too(self) -> None:
        runs = self.connect(Failure(400, "no"))
        run = runs.run("hi")
        again = runs.attached(run.id)
        self.assertEqual((again.frames, again.ending), (run.frames, run.ending))

    def test_while_it_runs_from_several_connections(self) -> None:
        release, second = self.held(), self.held()
        runs = self.connect(
            Reply(
                *[Text(f"{n} ") for n in range(50)],
                Hold(release),
                *[Text(f"{n} ") for n in range(50, 100)],
                Hold(second),
            )
        )
        runs.start("count")
        run = runs.until("message_chunk", content="49 ")
        watchers = [self.another() for _ in range(3)]
        attached = [watcher.attach(run.id, after) for watcher, after in zip(watchers, (0, 10, len(run.events)))]
        attached[0] = watchers[0].until("message_chunk", attached[0], content="49 ")
        release.set()
        attached[0] = watchers[0].until("message_chunk", attached[0], content="99 ")
        second.set()
        run = runs.finish(run)
        self.assert_whole(run, "react")
        for watcher, one, after in zip(watchers, attached, (0, 10, 52)):
            ended = watcher.finish(one)
            self.assertEqual((ended.frames, ended.ending), (run.frames[after:], run.ending))

    def test_a_watcher_that_does_not_read_slows_nobody(self) -> None:
        release = self.held()
        runs = self.connect(Reply(Text("begin"), Hold(release), *[Text(BIG)] * 5_000))
        runs.start("go")
        run = runs.until("message_chunk")
        plug = upgrade(self.server, receive_buffer=4096)
        self.addCleanup(plug.close)
        plug.sendall(frame(json.dumps({"type": "attach", "id": run.id, "after": 0}).encode()))
        release.set()
        self.assert_whole(runs.finish(run, 60), "react")

    def test_after_a_restart(self) -> None:
        runs = self.connect(Reply(Text("a"), Call("ls", {})), Reply(Text("b")))
        run = runs.run("go", working_folder=str(self.work), id="kept")
        self.server.restart()
        with self.another() as later:
            for after in (0, 3, len(run.events)):
                again = later.attached("kept", after)
                self.assertEqual((again.frames, again.ending), (run.frames[after:], run.ending))

    def test_an_id_used_again_means_the_newest_run(self) -> None:
        runs = self.connect()
        runs.run("first", id="same")
        newest = runs.run("second", id="same")
        self.assertEqual(runs.attached("same").frames, newest.frames)


class StallTest(RunsTestCase):
    def test_who_never_reads_is_disconnected_and_the_run_kept(self) -> None:
        chunks = 2_000
        runs = self.connect(Reply(*[Text(f"{n} {BIG}") for n in range(chunks)]), runs='stall_timeout = "1s"')
        plug = upgrade(self.server, receive_buffer=4096)
        self.addCleanup(plug.close)
        plug.sendall(frame(json.dumps({"type": "run", "message": "go", "agent": "react", "id": "slow"}).encode()))
        self.model.wait_for_requests(1)
        port = plug.getsockname()[1]
        eventually(lambda: not is_established(self.server, port), "the connection is closed", TIMEOUT)
        run = runs.attached("slow", timeout=60)
        self.assert_whole(run, "react")
        self.assertEqual(run.reply, "".join(f"{n} {BIG}" for n in range(chunks)))

    def test_a_client_whose_run_is_merely_quiet_stays(self) -> None:
        release = self.held()
        runs = self.connect(Reply(Text("a"), Hold(release), Text("b")), runs='stall_timeout = "300ms"')
        runs.start("go")
        run = runs.until("message_chunk")
        # Nothing is there to be read, so nothing is left unread.
        self.assertRaises(TimeoutError, runs.next_frame, 1.0)
        release.set()
        self.assertEqual(runs.finish(run).reply, "ab")


class ManyTest(RunsTestCase):
    def test_a_hundred_runs_on_a_hundred_connections(self) -> None:
        self.connect()
        clients = [self.another() for _ in range(100)]
        for number, one in enumerate(clients):
            one.start(f"number {number}")
        for number, one in enumerate(clients):
            run = one.finish(timeout=60)
            self.assertEqual(run.reply, f"echo: number {number}")
            self.assert_whole(run, "react")


if __name__ == "__main__":
    unittest.main()
