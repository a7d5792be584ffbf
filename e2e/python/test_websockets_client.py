"""`patchboard serve` with the `websockets` client: it connects, is greeted and gets an answer."""

from __future__ import annotations

import json
import unittest

from packages import load
from patchboard_server import ServerTestCase

client = load("websockets.sync.client")

TIMEOUT = 60


class WebsocketsClientTest(ServerTestCase):
    def test_it_is_greeted_and_its_ping_is_answered(self) -> None:
        server = self.start_server()
        with client.connect(server.ws_url, open_timeout=TIMEOUT) as socket:
            self.assertEqual(json.loads(socket.recv(TIMEOUT)), {"ok": True, "version": server.ready["version"]})
            socket.send(json.dumps({"id": "1", "method": "ping"}))
            answer = json.loads(socket.recv(TIMEOUT))
            self.assertEqual(answer["id"], "1")
            self.assertIn("result", answer)


if __name__ == "__main__":
    unittest.main()
