"""The version of the package, told to the server."""

__version__ = "0.1.0"
