"""From a type hint to its JSON Schema and to the function that makes the Python value from a JSON value.

Both are built once, when a tool is declared.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

from ._convert import (
    KEYS,
    SIMPLE,
    Converter,
    Mismatch,
    first_of,
    found,
    item_of,
    key_of,
    limit_by,
    listed,
    one_of,
    pydantic_reason,
)
from .errors import SchemaError


@dataclasses.dataclass(frozen=True)
class Field:
    """Says more of a parameter than its type: `Annotated[int, Field("how many", ge=1, le=100)]`.

    The names of the limits are those of `annotated_types` and pydantic, whose own objects are understood as well.
    """

    description: str = ""
    _: dataclasses.KW_ONLY
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a hint means."""

    schema: dict[str, Any]
    # None: every JSON value fits as it is.
    convert: Converter | None
    description: str = ""
    # Bytes, a view of bytes or an array: such a parameter never comes as JSON.
    binary: type | None = None
    # Whether null is one of its values; only asked of binary ones.
    nullable: bool = False

    @property
    def type_name(self) -> str:
        """The word for it in a `ParameterSpec`."""
        if self.binary is not None:
            return "binary"
        kinds = self.schema.get("type", "any")
        if isinstance(kinds, list):
            kinds = [kind for kind in kinds if kind != "null"] if len(kinds) == 2 else kinds
            return str(kinds[0]) if len(kinds) == 1 else "any"
        return str(kinds)


def shape_of(hint: Any) -> Shape:
    """The meaning of a parameter's hint; SchemaError when it has none."""
    return _Builder().root(hint)


_LISTS: dict[Any, Callable[[list[Any]], Any] | None] = {
    list: None,
    collections.abc.Sequence: None,
    collections.abc.MutableSequence: None,
    collections.abc.Iterable: None,
    collections.abc.Collection: None,
    set: set,
    collections.abc.Set: set,
    collections.abc.MutableSet: set,
    frozenset: frozenset,
}
_OBJECTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


class _Builder:
    """Builds one parameter's shape; types that contain themselves become `$defs`."""

    def __init__(self) -> None:
        self.open: dict[Any, str] = {}
        self.recursive: set[Any] = set()
        self.definitions: dict[str, Any] = {}
        self.converters: dict[Any, Converter | None] = {}

    def root(self, hint: Any) -> Shape:
        description, limits, bare = _annotations(hint)
        binary = _binary(bare)
        if binary is not None:
            kind, nullable = binary
            schema: dict[str, Any] = {"type": "string", "format": "binary"}
            if kind is not bytes and kind is not memoryview:
                schema["contentMediaType"] = "application/x-npy"
            return Shape(schema, None, description, binary=kind, nullable=nullable)
        schema, convert = self.build(bare)
        schema, convert = limit_by(schema, convert, limits)
        return Shape(_self_contained(schema, self.definitions), convert, description)

    def build(self, hint: Any) -> tuple[dict[str, Any], Converter | None]:
        description, limits, bare = _annotations(hint)
        schema, convert = limit_by(*self.bare(bare), limits)
        return ({**schema, "description": description} if description else schema), convert

    def bare(self, hint: Any) -> tuple[dict[str, Any], Converter | None]:
        try:
            if hint in SIMPLE:
                schema, convert = SIMPLE[hint]
                return dict(schema), convert
        except TypeError:
            pass
        if isinstance(hint, str) or isinstance(hint, typing.ForwardRef):
            raise SchemaError(f"the name in the annotation {hint!r} is not known where the tool is declared")
        if isinstance(hint, typing.TypeVar):
            return self.build(hint.__bound__) if hint.__bound__ is not None else ({}, None)
        if hasattr(hint, "__supertype__"):
            return self.build(hint.__supertype__)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin is typing.Union or origin is types.UnionType:
            return self.union(arguments)
        if origin is typing.Literal:
            return one_of(list(arguments), {key_of(value): value for value in arguments})
        kind = origin or hint
        if kind in _LISTS:
            return self.array(_LISTS[kind], arguments[0] if arguments else Any)
        if kind is tuple:
            return self.fixed(arguments)
        if kind in _OBJECTS:
            return self.mapping(*(arguments or (str, Any)))
        if not isinstance(kind, type):
            raise SchemaError(f"{hint!r} is not a type a parameter can have")
        if issubclass(kind, (bytes, bytearray, memoryview)) or _is_ndarray(kind):
            raise SchemaError(f"{kind.__name__} cannot stand inside another type: make it a parameter of its own")
        return self.named(kind)

    def named(self, kind: type) -> tuple[dict[str, Any], Converter | None]:
        if issubclass(kind, enum.Enum):
            values = [member.value for member in kind]
            return one_of(values, {key_of(member.value): member for member in kind})
        if callable(getattr(kind, "model_validate", None)) and callable(getattr(kind, "model_json_schema", None)):
            return self.model(kind)
        if not (dataclasses.is_dataclass(kind) or typing.is_typeddict(kind)):
            raise SchemaError(f"{kind.__qualname__} is not a type a parameter can have: use a dataclass")
        if kind in self.open:
            self.recursive.add(kind)
            return {"$ref": f"#/$defs/{self.open[kind]}"}, lambda value: self.again(kind, value)
        taken = set(self.open.values()) | set(self.definitions)
        name = next(name for name in _candidates(kind.__name__) if name not in taken)
        self.open[kind] = name
        schema, convert = self.record(kind)
        self.converters[kind] = convert
        del self.open[kind]
        if kind in self.recursive:
            self.definitions[name] = schema
            return {"$ref": f"#/$defs/{name}"}, convert
        return schema, convert

    def again(self, kind: type, value: Any) -> Any:
        convert = self.converters[kind]
        return value if convert is None else convert(value)

    def union(self, arguments: tuple[Any, ...]) -> tuple[dict[str, Any], Converter | None]:
        branches = [self.build(argument) for argument in arguments]
        converters = [convert for _, convert in branches]
        schema: dict[str, Any] = {"anyOf": [schema for schema, _ in branches]}
        if all(set(schema) == {"type"} and isinstance(schema["type"], str) for schema, _ in branches):
            schema = {"type": [schema["type"] for schema, _ in branches]}
        if None in converters:
            return schema, None
        return schema, first_of([convert for convert in converters if convert is not None])

    def array(self, make: Callable[[list[Any]], Any] | None, item: Any) -> tuple[dict[str, Any], Converter | None]:
        item_schema, item_convert = self.build(item)
        schema: dict[str, Any] = {"type": "array"}
        if item_schema:
            schema["items"] = item_schema
        if make is not None:
            schema["uniqueItems"] = True

        def convert(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"expected a list, got {found(value)}")
            items = value if item_convert is None else [item_of(item_convert, at, one) for at, one in enumerate(value)]
            try:
                return items if make is None else make(items)
            except TypeError:
                raise Mismatch("expected a list of values that can be compared, got lists or objects") from None

        return schema, convert

    def fixed(self, arguments: tuple[Any, ...]) -> tuple[dict[str, Any], Converter | None]:
        if not arguments or (len(arguments) == 2 and arguments[1] is Ellipsis):
            schema, convert = self.array(None, arguments[0] if arguments else Any)
            return schema, lambda value: tuple(typing.cast(Converter, convert)(value))
        if arguments == ((),):
            arguments = ()
        items = [self.build(argument) for argument in arguments]
        count = len(items)

        def convert_each(value: Any) -> Any:
            if type(value) is not list:
                raise Mismatch(f"expected a list, got {found(value)}")
            if len(value) != count:
                raise Mismatch(f"expected {count} items, got {len(value)}")
            return tuple(
                item_of(convert, at, one) for at, ((_, convert), one) in enumerate(zip(items, value, strict=True))
            )

        return {
            "type": "array",
            "prefixItems": [schema for schema, _ in items],
            "minItems": count,
            "maxItems": count,
        }, convert_each

    def mapping(self, key: Any, item: Any) -> tuple[dict[str, Any], Converter | None]:
        key_convert = KEYS.get(key)
        if key_convert is None and key not in (str, Any):
            raise SchemaError(f"the keys of an object are str or int, not {key!r}")
        item_schema, item_convert = self.build(item)
        schema: dict[str, Any] = {"type": "object"}
        if item_schema:
            schema["additionalProperties"] = item_schema
        if key_convert is not None:
            schema["propertyNames"] = {"pattern": "^-?[0-9]+$"}

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(f"expected an object, got {found(value)}")
            if key_convert is None and item_convert is None:
                return value
            return {
                name if key_convert is None else key_convert(name): item_of(item_convert, name, one)
                for name, one in value.items()
            }

        return schema, convert

    def record(self, kind: type) -> tuple[dict[str, Any], Converter | None]:
        """A dataclass or a TypedDict."""
        hints = hints_of(kind)
        defaults: dict[str, Any] = {}
        if dataclasses.is_dataclass(kind):
            fields = [field for field in dataclasses.fields(kind) if field.init]
            names = [field.name for field in fields]
            for field in fields:
                if field.default is not dataclasses.MISSING:
                    defaults[field.name] = field.default
                elif field.default_factory is not dataclasses.MISSING:
                    defaults[field.name] = dataclasses.MISSING
            make: Callable[..., Any] = kind
        else:
            names = list(hints)
            required_names: frozenset[str] = getattr(kind, "__required_keys__", frozenset(names))
            defaults = {name: dataclasses.MISSING for name in names if name not in required_names}
            make = dict
        parts = {name: self.build(_unrequired(hints[name])) for name in names}
        properties = {
            name: {**schema, "default": defaults[name]}
            if isinstance(defaults.get(name, dataclasses.MISSING), (str, int, float, bool))
            else schema
            for name, (schema, _) in parts.items()
        }
        required = [name for name in names if name not in defaults]
        schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required

        def convert(value: Any) -> Any:
            if type(value) is not dict:
                raise Mismatch(f"expected an object, got {found(value)}")
            for name in required:
                if name not in value:
                    raise Mismatch(f"the field `{name}` is missing")
            arguments = {}
            for name, one in value.items():
                if name not in parts:
                    raise Mismatch(f"there is no field `{name}`, only {listed(names)}")
                arguments[name] = item_of(parts[name][1], name, one)
            try:
                return make(**arguments)
            except (TypeError, ValueError) as error:
                raise Mismatch(str(error)) from None

        return schema, convert

    def model(self, kind: Any) -> tuple[dict[str, Any], Converter | None]:
        """A pydantic model, which knows all of this itself."""
        schema: dict[str, Any] = kind.model_json_schema()
        # Its references count from the root of the schema, where the definitions therefore have to stay.
        self.definitions.update(schema.pop("$defs", {}))

        def convert(value: Any) -> Any:
            try:
                return kind.model_validate(value)
            except ValueError as error:
                raise Mismatch(pydantic_reason(error)) from None

        return schema, convert


def _candidates(name: str) -> collections.abc.Iterator[str]:
    yield name
    number = 1
    while True:
        number += 1
        yield f"{name}{number}"


def _annotations(hint: Any) -> tuple[str, list[Any], Any]:
    """The description, the limits and the type inside `Annotated`."""
    description, limits = "", []
    while typing.get_origin(hint := _unaliased(hint)) is typing.Annotated:
        hint, *extras = typing.get_args(hint)
        for extra in extras:
            if isinstance(extra, str):
                description = description or extra
            elif extra is not None:
                description = description or str(getattr(extra, "description", None) or "")
                limits.append(extra)
                # pydantic's Field keeps its limits in a list of their own.
                nested = getattr(extra, "metadata", None)
                limits.extend(nested if isinstance(nested, list) else [])
    return description, limits, hint


def _unaliased(hint: Any) -> Any:
    """What a name made with `type X = ...` stands for."""
    while type(typing.get_origin(hint) or hint).__name__ == "TypeAliasType":
        value, arguments = hint.__value__, typing.get_args(hint)
        hint = value[arguments] if arguments and getattr(value, "__parameters__", ()) else value
    return hint


# A schema that grows beyond this when references are replaced keeps its references.
_MAX_NODES = 5_000
_REFERENCE = "#/$defs/"


def _self_contained(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema with its definitions put where they are named; only what contains itself stays a reference.

    Readers of a single parameter's schema often cannot follow references.
    """
    if not definitions:
        return schema
    nodes = 0
    kept = False

    def put_in(node: Any, inside: frozenset[str]) -> Any:
        nonlocal nodes, kept
        nodes += 1
        if nodes > _MAX_NODES:
            return node
        if isinstance(node, list):
            return [put_in(one, inside) for one in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix(_REFERENCE)
        if name in definitions and name not in inside:
            others = {key: value for key, value in node.items() if key != "$ref"}
            return {**put_in(definitions[name], inside | {name}), **put_in(others, inside)}
        kept = kept or name in definitions
        return {key: put_in(value, inside) for key, value in node.items()}

    whole: dict[str, Any] = put_in(schema, frozenset())
    if nodes > _MAX_NODES:
        return {**schema, "$defs": definitions}
    return {**whole, "$defs": definitions} if kept else whole


def _binary(hint: Any) -> tuple[type, bool] | None:
    """The binary kind of a hint, and whether it may be None: `bytes`, `numpy.ndarray | None`, `NDArray[...]`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        arguments = [_annotations(argument)[2] for argument in typing.get_args(hint)]
        others = [argument for argument in arguments if argument is not type(None)]
        inner = _binary(others[0]) if len(others) == 1 else None
        return (inner[0], True) if inner is not None else None
    kind = typing.get_origin(hint) or hint
    if isinstance(kind, type) and (kind in (bytes, bytearray, memoryview) or _is_ndarray(kind)):
        return kind, False
    return None


def _is_ndarray(kind: type) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(kind, numpy.ndarray)


def _unrequired(hint: Any) -> Any:
    """The type inside a TypedDict's `Required[...]` or `NotRequired[...]`."""
    name = getattr(typing.get_origin(hint), "_name", None)
    return typing.get_args(hint)[0] if name in ("Required", "NotRequired", "ReadOnly") else hint


def hints_of(thing: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(thing, include_extras=True)
    except NameError as error:
        name = getattr(thing, "__qualname__", repr(thing))
        raise SchemaError(f"an annotation of `{name}` cannot be resolved: {error}") from error
