"""Functions as tools: the decorator, and everything about a tool that can be worked out before it is called."""

from __future__ import annotations

import enum
import inspect
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, TypeVar, overload

from . import _binary, _docstring, _proto, _values
from ._context import Context
from ._convert import Mismatch
from ._schema import Shape, hints_of, shape_of
from .errors import InvalidArgument, SchemaError, SerializationError

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MARK = "__patchboard_tool__"


class Kind(enum.Enum):
    PLAIN = "plain"
    COROUTINE = "coroutine"
    GENERATOR = "generator"
    ASYNC_GENERATOR = "async generator"


@dataclass(frozen=True)
class Options:
    """What `@tool(...)` was told."""

    name: str | None = None
    description: str | None = None
    read_only: bool = False
    cacheable: bool = False
    timeout: float | None = None
    thread_sensitive: bool = False
    inline: bool = False
    metadata: Mapping[str, str] = dataclass_field(default_factory=dict)


@dataclass(frozen=True)
class Parameter:
    name: str
    shape: Shape
    required: bool
    default: Any
    description: str

    def spec(self) -> Any:
        spec = _proto.ParameterSpec(
            name=self.name, type=self.shape.type_name, description=self.description, required=self.required
        )
        if self.shape.schema:
            spec.validation_json = json.dumps(self.shape.schema, ensure_ascii=False, default=str)
        if not self.required:
            try:
                _values.put(spec.default_value, self.default)
            except SerializationError:
                # A default without JSON form still works; it just cannot be shown.
                spec.ClearField("default_value")
        return spec


class Tool:
    """One tool, ready to be called: its description, its parameters and how they are read from a request."""

    def __init__(self, function: Callable[..., Any], options: Options) -> None:
        self.function = function
        self.name: str = options.name or str(getattr(function, "__name__", ""))
        if not _NAME.fullmatch(self.name):
            raise SchemaError(f"`{self.name}` is not a tool's name: letters, digits, `_`, `.`, `-`, at most 64")
        self.options = options
        self.kind = _kind(function)
        self.streams = self.kind in (Kind.GENERATOR, Kind.ASYNC_GENERATOR)
        if options.inline and self.kind is not Kind.PLAIN:
            raise SchemaError(f"`{self.name}`: inline is for plain functions; this is a {self.kind.value}")
        self.description, described = _docstring.read(inspect.getdoc(function))
        self.description = options.description or self.description
        self.context_parameter: str | None = None
        self.takes_anything = False
        self.parameters = self._read_signature(described)
        self._required = frozenset(name for name, one in self.parameters.items() if one.required)
        # For each name: how JSON is converted, whether it is text, and the binary kind.
        self._readers = {
            name: (one.shape.convert, one.shape.type_name == "string", one.shape)
            for name, one in self.parameters.items()
        }
        self.spec = self._spec()

    def _read_signature(self, described: Mapping[str, str]) -> dict[str, Parameter]:
        hints = hints_of(_hinted(self.function))
        parameters: dict[str, Parameter] = {}
        for name, one in inspect.signature(self.function).parameters.items():
            hint = hints.get(name, Any)
            if one.kind is one.VAR_KEYWORD:
                self.takes_anything = True
                continue
            if one.kind in (one.VAR_POSITIONAL, one.POSITIONAL_ONLY):
                raise SchemaError(f"`{self.name}`: arguments come by name, so `{name}` cannot be given")
            if isinstance(hint, type) and issubclass(hint, Context):
                self.context_parameter = name
                continue
            try:
                shape = shape_of(hint)
            except SchemaError as error:
                raise SchemaError(f"`{self.name}`, parameter `{name}`: {error}") from error
            required = one.default is one.empty
            text = shape.description or described.get(name, "")
            parameters[name] = Parameter(name, shape, required, None if required else one.default, text)
        return parameters

    def _spec(self) -> Any:
        metadata = dict(self.options.metadata)
        if self.options.read_only:
            metadata["read_only"] = "true"
        if self.options.cacheable:
            metadata["cacheable"] = "true"
        if self.options.thread_sensitive:
            metadata["thread_sensitive"] = "true"
        if self.options.timeout is not None:
            metadata["timeout_ms"] = str(max(1, round(self.options.timeout * 1000)))
        specs = [parameter.spec() for parameter in self.parameters.values()]
        if self.takes_anything:
            # How the protocol says "any other arguments".
            specs.append(_proto.ParameterSpec(name="kwargs", type="any", required=True))
        return _proto.ToolSpec(
            name=self.name,
            description=self.description,
            parameters=specs,
            metadata=metadata,
            supports_streaming=self.streams,
        )

    def arguments(self, request: Any) -> dict[str, Any]:
        """The function's arguments from a request; InvalidArgument names the one that is wrong."""
        arguments: dict[str, Any] = {}
        readers = self._readers
        binaries = request.binary_parameters
        for name, message in request.parameters.items():
            reader = readers.get(name)
            if reader is None:
                if not self.takes_anything:
                    raise self._unknown(name)
                reader = _ANYTHING
            convert, wants_text, shape = reader
            try:
                value = _values.get(message, wants_text=wants_text)
                if shape.binary is not None:
                    if name in binaries or (value is None and shape.nullable):
                        arguments[name] = None
                        continue
                    raise Mismatch("it is binary: send it in binary_parameters, not as JSON")
                arguments[name] = value if convert is None else convert(value)
            except Mismatch as mismatch:
                raise invalid(name + mismatch.path, mismatch.reason) from None
            except ValueError as error:
                raise invalid(name, str(error)) from None
        if binaries:
            self._add_binaries(arguments, request)
        if len(arguments) < len(readers) and not self._required <= arguments.keys():
            missing = next(name for name in self.parameters if name in self._required and name not in arguments)
            raise invalid(missing, "it is required")
        return arguments

    def _add_binaries(self, arguments: dict[str, Any], request: Any) -> None:
        for name, data in request.binary_parameters.items():
            reader = self._readers.get(name)
            if reader is None and not self.takes_anything:
                raise self._unknown(name)
            try:
                form = request.metadata.get(f"binary_format:{name}", "")
                arguments[name] = _binary_argument((reader or _ANYTHING)[2], data, form)
            except (Mismatch, ValueError) as error:
                raise invalid(name, str(error)) from None

    def _unknown(self, name: str) -> InvalidArgument:
        names = ", ".join(f"`{one}`" for one in self.parameters) or "none"
        return invalid(name, f"the tool `{self.name}` has no such parameter; it has {names}")


_ANYTHING = (None, False, Shape({}, None))


def invalid(name: str, reason: str) -> InvalidArgument:
    return InvalidArgument(f"Invalid parameter {name}: {reason}", type="InvalidArgument")


def _binary_argument(shape: Shape, data: bytes, form: str) -> Any:
    if form == "pickle":
        raise Mismatch("pickled data is never read; send arrays as npy and everything else as raw bytes")
    if form not in ("", "raw", "npy"):
        raise Mismatch(f"the binary format `{form}` is not known: `raw` or `npy`")
    kind = shape.binary
    if kind is None:
        if shape.convert is not None:
            raise Mismatch("it is not binary: send it in parameters, as JSON")
        return _binary.decode(data, _binary.NPY if form == "npy" else _binary.OCTETS, {})
    if kind is bytes:
        return data
    if kind in (memoryview, bytearray):
        return kind(data)
    if form == "raw" or not data.startswith(_binary.NPY_MAGIC):
        raise Mismatch("expected an array in numpy's npy container")
    return _binary.npy_to_array(data)


def _kind(function: Callable[..., Any]) -> Kind:
    # An object with `__call__` is as good as a function.
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.isasyncgenfunction(target):
        return Kind.ASYNC_GENERATOR
    if inspect.isgeneratorfunction(target):
        return Kind.GENERATOR
    return Kind.COROUTINE if inspect.iscoroutinefunction(target) else Kind.PLAIN


def _hinted(function: Callable[..., Any]) -> Any:
    return function if inspect.isroutine(function) else type(function).__call__


class Toolbox:
    """A set of tools. The decorator `@tool` fills the default one; a program with several has its own."""

    def __init__(self) -> None:
        self._tools: dict[str, Tool] = {}

    def add(self, function: Callable[..., Any], options: Options) -> None:
        made = Tool(function, options)
        if made.name in self._tools:
            raise SchemaError(f"there are two tools named `{made.name}`")
        self._tools[made.name] = made

    def add_methods(self, thing: object) -> None:
        """Adds the methods of an object that are marked with `@tool`, bound to it."""
        found = False
        for name, member in inspect.getmembers(type(thing)):
            options = getattr(member, _MARK, None)
            if isinstance(options, Options):
                self.add(getattr(thing, name), options)
                found = True
        if not found:
            raise SchemaError(f"{type(thing).__qualname__} has no method marked with @tool")

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        cacheable: bool = False,
        timeout: float | None = None,
        thread_sensitive: bool = False,
        inline: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> Callable[[F], F]: ...

    def tool(
        self,
        function: F | None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        cacheable: bool = False,
        timeout: float | None = None,
        thread_sensitive: bool = False,
        inline: bool = False,
        metadata: Mapping[str, str] | None = None,
    ) -> F | Callable[[F], F]:
        """Makes a function a tool. The function itself stays as it is and can be called as before.

        name, description: as callers see them; by default the function's name and docstring.
        read_only: it changes nothing, so a server may run it without asking.
        cacheable: the same arguments give the same result, so a session that caches may reuse it.
        timeout: seconds after which a call is given up.
        thread_sensitive: all calls run one after the other on one and the same thread.
        inline: a plain function so quick that it runs on the event loop itself; it must never wait for anything.
        metadata: further entries of the tool's description.
        """
        options = Options(
            name, description, read_only, cacheable, timeout, thread_sensitive, inline, dict(metadata or {})
        )

        def declare(declared: F) -> F:
            if _is_method(declared):
                setattr(declared, _MARK, options)
            else:
                self.add(declared, options)
            return declared

        return declare if function is None else declare(function)


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether the function stands in a class body: then its object is still missing."""
    first = next(iter(inspect.signature(function).parameters), None)
    return first == "self" and "." in getattr(function, "__qualname__", "")


default_toolbox = Toolbox()
tool = default_toolbox.tool
