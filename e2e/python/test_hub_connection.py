"""Whether an app is still there: pings, names of dead connections, connections that never register, and goodbye."""

from __future__ import annotations

import json
import signal
import socket
import time
import unittest

import raw_client
from gateway_client import eventually
from hub_case import MUSIC, NOTEBOOK, HubTestCase
from hub_client import BEFORE_DEFAULTS, NEVER, TIMEOUT, App, registration, side

QUICK = 'ping_interval = "300ms"\npong_timeout = "1s"\n'
# The same where somebody has to answer in time.
STEADY = 'ping_interval = "300ms"\npong_timeout = "2s"\n'
# Nobody is pinged or dropped by the clock within the life of a test.
UNTIMED = f'ping_interval = "{NEVER}"\npong_timeout = "{NEVER}"\nresponse_timeout = "{NEVER}"\n'


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        return True
    except OSError:
        return False


class TakeOverTest(HubTestCase):
    def test_the_name_of_a_dead_connection_is_taken_over_long_before_its_next_ping(self) -> None:
        self.serve(UNTIMED)
        dead = self.deaf("notebook")
        app = self.app()
        answer = app.register("notebook", NOTEBOOK)
        self.assertIs(answer["success"], True, answer)
        app.name = "notebook"
        self.delivered(app, "notebook: it is me again")
        self.assertTrue(dead.is_dropped_within(TIMEOUT), "the old connection is of no use any more")

    def test_in_any_case_of_the_name(self) -> None:
        self.serve()
        self.deaf("NoteBook")
        self.assertIs(self.app().register("notebook", NOTEBOOK)["success"], True)

    def test_the_name_of_a_living_connection_is_not(self) -> None:
        self.serve(UNTIMED)
        holder = self.app("notebook")
        answer = self.app().register("notebook", NOTEBOOK)
        self.assertEqual((answer["success"], answer["code"]), (False, "DUPLICATE_NAME"))
        self.delivered(holder, "notebook: still you")

    def test_one_that_answers_its_ping_by_hand_is_living(self) -> None:
        self.serve()
        holder = self.deaf("notebook")
        app = self.app()
        app.send("registration", registration("notebook")["payload"])
        holder.pong(holder.next_ping())
        answer = app.take("registration_response")["payload"]
        self.assertEqual((answer["success"], answer["code"]), (False, "DUPLICATE_NAME"))

    def test_two_who_want_the_same_dead_name_do_not_both_get_it(self) -> None:
        self.serve()
        self.deaf("notebook")
        rivals = [self.app() for _ in range(5)]
        for rival in rivals:
            rival.send("registration", registration("notebook")["payload"])
        answers = [rival.take("registration_response")["payload"] for rival in rivals]
        self.assertEqual(sorted(answer["success"] for answer in answers), [False] * 4 + [True], answers)
        self.assertEqual({one["code"] for one in answers if not one["success"]}, {"DUPLICATE_NAME"})

    def test_the_others_do_not_wait_meanwhile(self) -> None:
        self.serve(UNTIMED)
        jukebox = self.app("jukebox", MUSIC)
        # A newcomer waits two seconds for the dead one's pong. The others are served before that: not in every round
        # on a busy machine, but in none if they had to wait as well.
        for at in range(15):
            self.deaf(f"dead{at}")
            newcomer = self.app()
            newcomer.send("registration", registration(f"dead{at}")["payload"])
            self.delivered(jukebox, "jukebox: play on")
            self.assertIs(self.app().register(f"third{at}", NOTEBOOK)["success"], True)
            still_waits = newcomer.has_nothing_yet()
            self.assertIs(newcomer.take("registration_response")["payload"]["success"], True)
            if still_waits:
                return
        self.fail("the others had to wait in every round")

    def test_a_message_the_dead_one_had_goes_to_its_heir(self) -> None:
        self.serve()
        dead = self.deaf("notebook")
        said = self.say("notebook: buy milk")
        first = dead.next_message()
        heir = self.app("notebook")
        again = heir.next_message()
        self.assertEqual((first.id, again.id, again.text), (said["id"], said["id"], "buy milk"))
        self.assertNotEqual(again.timestamp, first.timestamp)
        heir.ack(again)
        self.settled(said["id"], "delivered")


class HeartbeatTest(HubTestCase):
    def test_who_does_not_pong_is_dropped(self) -> None:
        self.serve(QUICK)
        deaf = self.deaf("notebook")
        started = time.monotonic()
        self.assertTrue(deaf.is_dropped_within(BEFORE_DEFAULTS))
        self.assertGreater(time.monotonic() - started, 0.9, "it had a chance")
        self.assertIs(self.app().register("notebook", NOTEBOOK)["success"], True)

    def test_data_is_no_pong(self) -> None:
        self.serve(QUICK)
        deaf = self.deaf("notebook")
        deadline = time.monotonic() + TIMEOUT
        with self.assertRaises((ConnectionError, EOFError)):
            while time.monotonic() < deadline:
                deaf.send(b'{"type":"response","payload":{"messageId":"msg-0","type":"ack","payload":{}}}')
                deaf.next_ping()

    def test_who_pongs_stays(self) -> None:
        self.serve(STEADY)
        patient = self.deaf("notebook")
        usual = self.app("jukebox", MUSIC)
        started = time.monotonic()
        # Longer than it takes to be dropped for not answering.
        while time.monotonic() - started < 3.0:
            patient.pong(patient.next_ping())
        self.say("notebook: still there?")
        self.assertEqual(patient.next_message().text, "still there?")
        self.delivered(usual, "jukebox: and you?")

    def test_unregistered_connections_are_pinged_as_well(self) -> None:
        self.serve(QUICK)
        self.deaf().next_ping()

    def test_what_the_dropped_one_had_goes_to_the_next(self) -> None:
        self.serve(STEADY + "reroute_direct = true\n")
        deaf = self.deaf("notebook")
        jukebox = self.app("jukebox", MUSIC)
        said = self.say("notebook: play some songs from my favourite playlist")
        self.assertEqual(deaf.next_message().id, said["id"])
        self.assertEqual(jukebox.next_message().id, said["id"])


class HalfRequestTestCase(HubTestCase):
    """A connection that sends half a request and no more."""

    def begin(self) -> None:
        self.serve('register_timeout = "2s"\n')
        self.plug = raw_client.connect(side(self.server))
        self.addCleanup(self.plug.close)
        self.plug.sendall(b"GET / HTTP/1.1\r\nHost: ")


def setUpModule() -> None:
    # It has ten seconds to send the rest.
    global half_request
    half_request = HalfRequestTestCase.for_module()
    half_request.begin()


class SilentTest(HubTestCase):
    def test_a_connection_that_does_not_register_is_dropped(self) -> None:
        self.go_on_with(half_request)
        registered = self.app("notebook")
        silent, refused = self.app(), self.app()
        self.assertIs(refused.register("no good", NOTEBOOK)["success"], False)
        silent.closed_with(BEFORE_DEFAULTS)
        refused.closed_with(BEFORE_DEFAULTS)
        slow = half_request.plug
        self.assertTrue(raw_client.is_closed_within(slow, TIMEOUT), "half a request is no reason to wait for ever")
        self.delivered(registered, "notebook: you stay")


class AddressTest(HubTestCase):
    def test_both_loopback_addresses_listen(self) -> None:
        if not has_ipv6():
            self.skipTest("this machine has no ::1")
        self.serve()
        port = self.server.address("hub").rsplit(":", 1)[1]
        with App(self.server, "six", NOTEBOOK, host=f"[::1]:{port}") as six:
            self.delivered(six, "six: over there")
        with App(self.server, "seven", NOTEBOOK, host=f"localhost:{port}") as seven:
            self.delivered(seven, "seven: by name")

    def test_the_ready_file_names_the_hub(self) -> None:
        self.serve()
        self.assertRegex(self.server.ready["hub"], r"^127\.0\.0\.1:\d+$")

    def test_switched_off_there_is_none(self) -> None:
        server = self.start_server(hub="off")
        self.assertIsNone(server.ready["hub"])


class GoodbyeTest(HubTestCase):
    def test_a_stopping_server_says_that_it_goes_away(self) -> None:
        self.serve()
        apps = [self.app("notebook"), self.app()]
        self.server.process.send_signal(signal.SIGTERM)
        self.assertEqual([app.closed_with() for app in apps], [1001, 1001])
        self.assertEqual(self.server.process.wait(TIMEOUT), 0)

    def test_deaf_apps_do_not_hold_it_up(self) -> None:
        # Neither a ping nor the time for the answer ends it, but the drain does.
        self.serve(UNTIMED, before='drain = "1s"\n')
        self.deaf("notebook")
        self.say("notebook: unanswered")
        self.assertEqual(self.server.terminate(), 0)

    def test_idle_apps_do_not_hold_it_up(self) -> None:
        # There is nothing to drain, and no time to be waited for.
        self.serve(UNTIMED, before=f'drain = "{NEVER}"\n')
        self.app("notebook")
        self.app()
        self.assertEqual(self.server.terminate(), 0)

    def test_an_app_that_says_goodbye_is_answered_and_forgotten(self) -> None:
        self.serve()
        app = self.app("notebook")
        app.socket.close(1000, "Client disconnect")
        self.assertEqual(app.closed_with(), 1000)
        eventually(lambda: self.is_free("notebook"), "still connected")

    def test_an_app_may_close_with_a_code_of_its_own(self) -> None:
        self.serve()
        app = self.app()
        app.send_raw(json.dumps(registration("no good")))
        app.take("registration_response")
        app.socket.close(4000, "Registration failed")
        self.assertEqual(app.closed_with(), 4000)


if __name__ == "__main__":
    unittest.main()
