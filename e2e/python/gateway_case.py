"""A test case with a stub model, a server that uses it and clients that are closed in the end."""

from __future__ import annotations

import threading

from gateway_client import Gateway
from patchboard_server import ServerTestCase
from stub_model import StubModel


class GatewayTestCase(ServerTestCase):
    def connect(self, *behaviours, kind: str = "openai", before: str = "", more: str = "") -> Gateway:
        """Starts a server whose model behaves as told, and a first client of it. `before` and `more` are configuration
        before and after the provider's: keys of the file itself, and of the default agent."""
        self.model = StubModel(*behaviours)
        self.addCleanup(self.model.close)
        self.server = self.start_server(config=before + self.model.provider_config(kind) + more)
        return self.another()

    def another(self) -> Gateway:
        gateway = Gateway(self.server)
        self.addCleanup(gateway.close)
        return gateway

    def held(self) -> threading.Event:
        """An event for `Hold`, set in the end whatever happens."""
        event = threading.Event()
        self.addCleanup(event.set)
        return event
