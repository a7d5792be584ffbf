"""A test case with a stub model, a stand-in of a service, and a server whose channel connects the two."""

from __future__ import annotations

import json
import threading

from ahead_case import AheadTestCase
from channel_stand_ins import Answer, Slack, StandIn, Telegram, post, slack_signature
from gateway_client import Gateway
from plugin_support import OPEN_LOOPBACK, Plugin, PluginTestCase
from stub_model import StubModel, echo

# Words that may appear on the wire to the service and nowhere else.
BOT_TOKEN = "123456:bot-token-canary"
WEBHOOK_SECRET = "webhook-secret-canary"
ENVIRONMENT = {"CHANNEL_BOT_TOKEN": BOT_TOKEN, "CHANNEL_SECRET": WEBHOOK_SECRET}
TELEGRAM_HEADER = "X-Telegram-Bot-Api-Secret-Token"


class ChannelTestCase(AheadTestCase, PluginTestCase):
    model: StubModel

    def telegram(self, *behaviours, settings: dict[str, str] | None = None, **how) -> Telegram:
        """A server with the channel `telegram`, and the Bot API it talks to."""
        api = Telegram(BOT_TOKEN)
        self.addCleanup(api.close)
        plugin = Plugin(
            "telegram",
            grants=(api.grant,),
            settings={"api_root": api.url, **(settings or {})},
            secrets={"bot_token": "env:CHANNEL_BOT_TOKEN"},
        )
        self.connect(plugin, "telegram", "telegram", *behaviours, **how)
        return api

    def slack(self, *behaviours, settings: dict[str, str] | None = None, **how) -> Slack:
        """A server with the channel `slack`, and the Web API it talks to."""
        api = Slack(BOT_TOKEN)
        self.addCleanup(api.close)
        plugin = Plugin(
            "slack",
            grants=(api.grant,),
            settings={"api_root": f"{api.url}/api", **(settings or {})},
            secrets={"bot_token": "env:CHANNEL_BOT_TOKEN"},
        )
        self.connect(plugin, "slack", "slack", *behaviours, **how)
        return api

    def hook(self, *behaviours, verify: str = "token", **how) -> StandIn:
        """A server with the generic channel `hook`, and a place where its answers can be posted."""
        place = StandIn()
        self.addCleanup(place.close)
        plugin = Plugin("webhook-json", grants=(place.grant,))
        self.connect(plugin, "hook", verify, *behaviours, keys='plugin = "webhook-json"\n' + how.pop("keys", ""), **how)
        return place

    def connect(
        self,
        plugin: Plugin,
        channel: str,
        verify: str,
        *behaviours,
        keys: str = "",
        before: str = "",
        agent: str = "",
        more: str = "",
        fallback=echo,
        others: tuple[Plugin, ...] = (),
        env: dict[str, str] | None = None,
        **options,
    ) -> Gateway:
        """Starts the server. `keys` are of the channel, `agent` of the default agent; `others` are further plugins."""
        self.model = StubModel(*behaviours, fallback=fallback)
        self.addCleanup(self.model.close)
        secret = "" if verify == "none" else 'secret = "env:CHANNEL_SECRET"\n'
        table = f'[channels.{channel}]\nverify = "{verify}"\n{secret}{keys}\n'
        provider = self.model.provider_config("openai") + agent
        self.serve(
            plugin,
            *others,
            before=before,
            agent=provider,
            more=table + OPEN_LOOPBACK + more,
            env={**ENVIRONMENT, **(env or {})},
            **options,
        )
        # What is said in a channel is for the operator to read.
        self.gateway = self.operator()
        self.assertEqual(self.plugins(self.gateway)[plugin.name]["state"], "ready", self.plugins(self.gateway))
        return self.gateway

    def again(self) -> Gateway:
        """Starts the server again after its death."""
        self.server.restart()
        self.gateway = self.operator()
        return self.gateway

    # Deliveries.

    def deliver(self, update: dict, secret: str | None = WEBHOOK_SECRET, **how) -> Answer:
        """A Telegram update with its secret."""
        headers = {} if secret is None else {TELEGRAM_HEADER: secret}
        return post(self.server, "telegram", update, {**headers, **how.pop("headers", {})}, **how)

    def deliver_slack(self, event: dict | bytes, headers: dict[str, str] | None = None, **how) -> Answer:
        """A signed event of Slack's."""
        body = event if isinstance(event, bytes) else json.dumps(event).encode()
        return post(self.server, "slack", body, {**slack_signature(WEBHOOK_SECRET, body), **(headers or {})}, **how)

    def deliver_json(self, body: dict, headers: dict[str, str] | None = None, **how) -> Answer:
        return post(self.server, "hook", body, {"X-Webhook-Token": WEBHOOK_SECRET, **(headers or {})}, **how)

    def accepted(self, answer: Answer) -> str:
        """Checks that a delivery was taken for later, and gives its id."""
        self.assertEqual((answer.status, answer.kind), (202, "application/json"), answer.text)
        self.assertEqual(list(answer.json), ["delivery"])
        self.assertRegex(answer.json["delivery"], r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        return answer.json["delivery"]

    def retry_after(self, answer: Answer) -> int:
        self.assertRegex(answer.headers.get("retry-after", ""), r"^[1-9]\d*$", answer)
        return int(answer.headers["retry-after"])

    def held(self) -> threading.Event:
        """An event for `Hold` and `Late`, set in the end whatever happens."""
        event = threading.Event()
        self.addCleanup(event.set)
        return event

    def calls(self) -> int:
        """The model calls that were counted."""
        return sum(row["calls"] for row in self.gateway.result("usage.report")["items"])


def said(request) -> list[str]:
    """What is in a prompt besides the system's words."""
    return [one["content"] for one in request.messages if one["role"] != "system"]
