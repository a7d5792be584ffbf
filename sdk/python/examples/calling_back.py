"""A tool that uses the server behind it: its tools, its agents, its patience."""

from typing import Any

from patchboard import Context, Unavailable, serve, tool


@tool
def summarise(context: Context, paths: list[str]) -> dict[str, Any]:
    """Reads files with the server's own tool and lets one of its agents sum them up."""
    texts = []
    for number, path in enumerate(paths):
        context.check_cancelled()
        context.progress(number / len(paths), f"reading {path}")
        texts.append(context.call("read_file", path=path))
    try:
        summary = context.agent("writer")("Sum this up in one sentence:\n\n" + "\n\n".join(map(str, texts)))
    except Unavailable as error:
        context.log.warning("no summary: %s", error)
        summary = None
    return {"files": len(texts), "summary": summary}


@tool(read_only=True)
async def what_can_i_use(context: Context) -> list[str]:
    """The names of the server's tools that this session may use."""
    return [one.name for one in await context.atools()]


if __name__ == "__main__":
    serve()
