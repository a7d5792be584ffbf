"""Clients that misbehave: bytes on a TCP connection, WebSocket frames made by hand, and a bystander who must notice
nothing of it.
"""

from __future__ import annotations

import socket
import struct
import threading
import time

from gateway_client import TIMEOUT, Gateway, eventually

TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


def connect(server, receive_buffer: int | None = None) -> socket.socket:
    host, port = server.gateway.rsplit(":", 1)
    plug = socket.socket()
    if receive_buffer is not None:
        plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plug.settimeout(TIMEOUT)
    plug.connect((host, int(port)))
    return plug


def head(path: str, headers: dict[str, str], method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode()


def status_of(server, headers: dict[str, str], path: str = "/ws", method: str = "GET") -> int:
    """The status a request is answered with; headers are taken as they are, `Host` included."""
    with connect(server) as plug:
        plug.sendall(head(path, headers, method))
        return read_status(plug)


def read_status(plug: socket.socket) -> int:
    answer = b""
    while b"\r\n\r\n" not in answer:
        piece = plug.recv(1)
        assert piece, f"closed in the middle of the answer: {answer!r}"
        answer += piece
    return int(answer.split(b" ", 2)[1])


def upgrade(server, receive_buffer: int | None = None) -> socket.socket:
    """A WebSocket connection on which anything can be sent."""
    plug = connect(server, receive_buffer)
    plug.sendall(head("/ws", {"Host": server.gateway, **UPGRADE}))
    status = read_status(plug)
    assert status == 101, status
    return plug


def frame(payload: bytes, opcode: int = TEXT, *, final: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    first = (0x80 if final else 0) | reserved << 4 | opcode
    length = len(payload)
    mask_bit = 0x80 if masked else 0
    if length < 126:
        start = struct.pack("!BB", first, mask_bit | length)
    elif length < 1 << 16:
        start = struct.pack("!BBH", first, mask_bit | 126, length)
    else:
        start = struct.pack("!BBQ", first, mask_bit | 127, length)
    # A mask of zeros leaves the payload as it is.
    return start + (b"\0\0\0\0" if masked else b"") + payload


def close_code(plug: socket.socket, timeout: float = TIMEOUT) -> int | None:
    """Reads to the end; gives the code of the close frame, or None when there was none."""
    plug.settimeout(timeout)
    code = None
    stream = plug.makefile("rb")
    try:
        while start := stream.read(2):
            length = start[1] & 0x7F
            if length == 126:
                length = struct.unpack("!H", stream.read(2))[0]
            elif length == 127:
                length = struct.unpack("!Q", stream.read(8))[0]
            payload = stream.read(length)
            if start[0] & 0x0F == CLOSE:
                code = struct.unpack("!H", payload[:2])[0] if len(payload) >= 2 else None
    except ConnectionResetError:
        pass  # Data that nobody read was on its way.
    return code


def is_closed_within(plug: socket.socket, seconds: float) -> bool:
    """Whether the server closes the connection in this time."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        plug.settimeout(left)
        try:
            if not plug.recv(65536):
                return True
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True
    return False


class Bystander:
    """Another client of the same server, which pings all the time and must be answered each time."""

    def __init__(self, server, token: str | None = None) -> None:
        self.gateway = Gateway(server, token=token)
        self.pings = 0
        self.trouble: BaseException | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ping, daemon=True)

    def _ping(self) -> None:
        try:
            while not self._stop.is_set():
                assert self.gateway.result("ping") == "pong"
                self.pings += 1
                # A load generator would be a disturbance of its own.
                self._stop.wait(0.005)
        except BaseException as trouble:  # noqa: BLE001 - told to the test when it ends
            self.trouble = trouble

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def wait_for_pings(self, count: int = 3) -> None:
        """Until so many more are answered."""
        goal = self.pings + count
        eventually(lambda: self.pings >= goal or self.trouble is not None, "the bystander is answered", 60)

    def __exit__(self, kind: object, *_: object) -> None:
        self._stop.set()
        self._thread.join(TIMEOUT)
        self.gateway.close()
        if kind is None and self.trouble is not None:
            raise self.trouble


def peak_memory(server) -> int:
    """The most memory the server ever had, in MB."""
    return _memory(server, "VmHWM")


def memory(server) -> int:
    """The memory the server has now, in MB."""
    return _memory(server, "VmRSS")


def _memory(server, figure: str) -> int:
    with open(f"/proc/{server.pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(figure)) // 1024
