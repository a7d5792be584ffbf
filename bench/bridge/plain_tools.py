"""Tools that cost next to nothing, in a worker without the SDK: what is measured is the way to them."""

from worker_adapter import Adapter, tool


class Tools(Adapter):
    @tool("Gives back what it got", read_only="true")
    def echo(self, text: str):
        return text

    @tool("Tells how many bytes it got", read_only="true")
    def size(self, data: bytes):
        # Not a number: workers like this one make floats of them.
        return str(len(data))
