"""Tools that cost next to nothing, in a worker of the SDK: what is measured is the way to them."""

from patchboard import serve, tool


@tool(read_only=True)
def echo(text: str) -> str:
    """Gives back what it got."""
    return text


@tool(read_only=True)
def size(data: bytes) -> str:
    """Tells how many bytes it got."""
    return str(len(data))


if __name__ == "__main__":
    serve()
