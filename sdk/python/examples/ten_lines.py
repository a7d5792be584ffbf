"""A worker in ten lines. Try it: `patchboard-worker ten_lines.py`."""

from patchboard import serve, tool


@tool(read_only=True)
def greet(name: str, times: int = 1) -> str:
    """Greets a person, once or several times."""
    return " ".join([f"Hello, {name}!"] * times)


if __name__ == "__main__":
    serve()
