"""A private session bus with a notification service on it, made with the `dbus-fast` package.

    with Desktop() as desktop:
        server = self.start_server(env={"DBUS_SESSION_BUS_ADDRESS": desktop.address})
        (toast,) = desktop.wait_for(1)
"""

# Annotations of the service are signatures of the bus and must stay as they are, so none are postponed here.

import asyncio
import shutil
import subprocess
import tempfile
import threading
import unittest
from dataclasses import dataclass
from pathlib import Path

from packages import load

dbus_fast = load("dbus_fast")
aio = load("dbus_fast.aio")
service = load("dbus_fast.service")

TIMEOUT = 60.0


@dataclass(frozen=True)
class Toast:
    app: str
    title: str
    body: str
    urgency: int


class Notifications(service.ServiceInterface):
    def __init__(self, desktop: "Desktop") -> None:
        super().__init__("org.freedesktop.Notifications")
        self._desktop = desktop

    @service.dbus_method()
    def GetCapabilities(self) -> "as":  # noqa: F722
        return list(self._desktop.capabilities)

    @service.dbus_method()
    def Notify(
        self,
        app: "s",
        replaces: "u",
        icon: "s",
        title: "s",
        body: "s",
        actions: "as",  # noqa: F722
        hints: "a{sv}",  # noqa: F722
        expires: "i",
    ) -> "u":
        assert (replaces, icon, actions, expires) == (0, "", [], -1), (replaces, icon, actions, expires)
        assert set(hints) == {"urgency"} and hints["urgency"].signature == "y", hints
        return self._desktop.show(Toast(app, title, body, hints["urgency"].value))


class Desktop:
    """`dbus-daemon` on a socket of its own, and a service that keeps what it is shown."""

    def __init__(self, capabilities: tuple[str, ...] = ("body", "body-markup")) -> None:
        self.capabilities = capabilities
        self._toasts: list[Toast] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def toasts(self) -> list[Toast]:
        with self._changed:
            return list(self._toasts)

    def show(self, toast: Toast) -> int:
        with self._changed:
            self._toasts.append(toast)
            self._changed.notify_all()
            return len(self._toasts)

    def wait_for(self, count: int, timeout: float = TIMEOUT) -> list[Toast]:
        with self._changed:
            there = self._changed.wait_for(lambda: len(self._toasts) >= count, timeout)
            assert there, f"{count} notifications not within {timeout} s: {self._toasts}"
            return list(self._toasts)

    def __enter__(self) -> "Desktop":
        program = shutil.which("dbus-daemon")
        if program is None:
            raise unittest.SkipTest("`dbus-daemon` is not installed")
        self._folder = tempfile.mkdtemp(prefix="patchboard-bus-")
        self.address = f"unix:path={Path(self._folder) / 'bus'}"
        command = [program, "--session", "--nofork", "--nopidfile", "--print-address", f"--address={self.address}"]
        self._daemon = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        # It tells its address when it listens.
        assert self._daemon.stdout is not None and self._daemon.stdout.readline(), "the bus did not start"
        self._thread.start()
        self._bus = asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(TIMEOUT)
        return self

    async def _serve(self) -> object:
        bus = await aio.MessageBus(bus_address=self.address).connect()
        bus.export("/org/freedesktop/Notifications", Notifications(self))
        await bus.request_name("org.freedesktop.Notifications")
        return bus

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._bus.disconnect)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._daemon.terminate()
        self._daemon.wait(TIMEOUT)
        self._daemon.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)
