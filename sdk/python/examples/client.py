"""A program outside that uses a server's tools: `python client.py 127.0.0.1:50051`."""

import sys

from patchboard import Client, ToolError


def main(address: str) -> None:
    with Client(address, timeout=30) as client:
        for one in client.tools():
            print(f"{one.name}: {one.description.splitlines()[0] if one.description else ''}")
        try:
            print(client.call("greet", name="Ada", times=2))
        except ToolError as error:
            print(f"the tool failed: {error}")
        for prime in client.stream("primes", below=50):
            print(prime, end=" ", flush=True)
        print()


if __name__ == "__main__":
    main(sys.argv[1])
