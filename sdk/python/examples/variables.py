"""Values that a session's tools, agents and clients share."""

from patchboard import Context, ToolError, serve, tool


@tool
def set_rate(context: Context, rate: float) -> list[str]:
    """Sets the exchange rate; returns the variables that are out of date because of it."""
    return list(context.session.variables.set("rate", rate).stale)


@tool
def total(context: Context, prices: list[float]) -> float:
    """The sum of the prices at the current rate, kept as `total` until the rate changes."""
    variables = context.session.variables
    value = sum(prices) * float(variables.get("rate", 1.0))
    variables.set("total", value, depends_on=["rate"])
    return value


@tool
def count_up(context: Context) -> int:
    """Adds one to a counter that others may change at the same time."""
    variables = context.session.variables
    if variables.get("counter", None) is None:
        variables.set("counter", 0)
    for _ in range(10):
        known = variables.read("counter")
        try:
            variables.set("counter", known.value + 1, if_version=known.version)
        except ToolError:
            # Somebody else was quicker: look again.
            continue
        return int(known.value) + 1
    raise ToolError("too many others count at the same time")


@tool(read_only=True)
async def next_rate(context: Context) -> float:
    """Waits until the rate changes, as long as the caller does."""
    async for change in context.session.avariables.watch("rate"):
        if not change.deleted:
            return float(change.value)
    raise ToolError("the rate did not change")


if __name__ == "__main__":
    serve()
