"""Decodes what a neighbour of a newer version says, as far as it can be understood.

A new word in one of a frame's closed sets would make the whole frame undecodable, and with it
everything else that it says. So each set that may grow names, by `otherwise`, the word of today as
which an unknown one is read. Bounds and types hold as ever. The usual frame costs no more than
before: only one that does not decode is looked at again.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final, Literal, TypeGuard, Union, cast, get_args, get_origin

import msgspec
from msgspec import Meta

_OTHERWISE: Final = "otherwise"
# An unknown word may be as long.
_Word = Annotated[str, Meta(max_length=63)]


def otherwise(word: str) -> Meta:
    """Mark a Literal as open: a word that it lacks is read as `word`."""
    return Meta(extra={_OTHERWISE: word})


class Tolerant[T]:
    """Decoder of one kind of struct, or of a union of tagged ones."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._usual: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)
        opened, exact = _Shapes(forbid_unknown_fields=False), _Shapes(forbid_unknown_fields=True)
        self._opened: msgspec.json.Decoder[Any] = msgspec.json.Decoder(opened.of(kind))
        self._exact: msgspec.json.Decoder[Any] = msgspec.json.Decoder(exact.of(kind))
        self._sets = opened.sets

    def decode(self, data: bytes | str) -> T:
        """The frame; raises msgspec.DecodeError."""
        return self.read(data)[0]

    def read(self, data: bytes | str) -> tuple[T, str]:
        """The frame, and the first word of it that was read as another, as text; "" for none.

        Raises msgspec.DecodeError.
        """
        try:
            return self._usual.decode(data), ""
        except msgspec.ValidationError:
            # Raises too for whatever is wrong apart from the words.
            frame = self._opened.decode(data)
            unknown = next(iter([*self._close(frame)]), "")
            return msgspec.convert(msgspec.to_builtins(frame), self._kind), unknown

    def unknown_field(self, data: bytes | str) -> str:
        """The first field of a frame that this version does not know, as text; "" for none."""
        try:
            self._exact.decode(data)
        except msgspec.DecodeError as error:
            return str(error)
        return ""

    def _close(self, frame: Any) -> Iterator[str]:
        """Put known words in place of unknown ones; tells which."""
        for name, (known, word) in self._sets[type(frame)].items():
            said = getattr(frame, name)
            if said not in known:
                setattr(frame, name, word)
                yield f"{name} {said!r}, read as {word!r}"
        for name in frame.__struct_fields__:
            value = getattr(frame, name)
            inner = cast(tuple[Any, ...], value if isinstance(value, tuple) else (value,))
            for item in inner:
                if type(item) in self._sets:
                    yield from self._close(item)


class Reader[T]:
    """Decodes the frames of one connection; what is of a newer version is told once.

    Unknown fields cost a second look, so only the 1st, 2nd, 4th, 8th... frame is searched for them.
    """

    def __init__(self, kind: Tolerant[T], tell: Callable[[str], None]) -> None:
        self._kind = kind
        self._tell = tell
        self._told = False
        self._count = 0

    def decode(self, data: bytes | str) -> T:
        """The next frame; raises msgspec.DecodeError."""
        frame, unknown = self._kind.read(data)
        self._count += 1
        if self._told:
            return frame
        if not unknown and self._count & (self._count - 1) == 0:
            unknown = self._kind.unknown_field(data)
        if unknown:
            self._told = True
            self._tell(f"speaks of things that this version does not know, ignored: {unknown}")
        return frame


class _Shapes:
    """Copies of structs in which every open Literal is a short text."""

    def __init__(self, *, forbid_unknown_fields: bool) -> None:
        self._forbid = forbid_unknown_fields
        self._copies: dict[type[msgspec.Struct], type[msgspec.Struct]] = {}
        # Of each copy, by field: the known words, and the one for all others.
        self.sets: dict[type, dict[str, tuple[tuple[object, ...], str]]] = {}

    def of(self, kind: Any) -> Any:
        """The same type with copies in place of structs."""
        if _is_struct(kind):
            return self._copies.get(kind) or self._copy(kind)
        origin: Any = get_origin(kind)
        arguments: tuple[Any, ...] = get_args(kind)
        if origin is Annotated:
            opened = _Word if _word_for_others(kind) else self.of(arguments[0])
            return Annotated[opened, *arguments[1:]]
        if origin is tuple:
            return tuple[tuple(self.of(argument) for argument in arguments)]
        if origin is dict or origin is Literal or not arguments:
            return kind
        return Union[tuple(self.of(argument) for argument in arguments)]  # noqa: UP007

    def _copy(self, kind: type[msgspec.Struct]) -> type[msgspec.Struct]:
        fields: list[Any] = []
        sets: dict[str, tuple[tuple[object, ...], str]] = {}
        for field in msgspec.structs.fields(kind):
            word = _word_for_others(field.type)
            if word:
                sets[field.name] = (get_args(get_args(field.type)[0]), word)
            opened = self.of(field.type)
            fields.append((field.name, opened) if field.required else self._optional(field, opened))
        config = kind.__struct_config__
        copy = msgspec.defstruct(
            kind.__name__,
            fields,
            kw_only=True,
            tag_field=config.tag_field,
            tag=config.tag,
            forbid_unknown_fields=self._forbid,
        )
        self._copies[kind] = copy
        self.sets[copy] = sets
        return copy

    def _optional(self, field: msgspec.structs.FieldInfo, opened: Any) -> tuple[str, Any, Any]:
        default = field.default
        if type(default) in self._copies:
            return field.name, opened, msgspec.field(default_factory=self._copies[type(default)])
        if default is msgspec.NODEFAULT:
            return field.name, opened, msgspec.field(default_factory=field.default_factory)
        return field.name, opened, default


def _is_struct(kind: Any) -> TypeGuard[type[msgspec.Struct]]:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _word_for_others(kind: Any) -> str:
    """The word for unknown ones of an open Literal; "" if it is none."""
    if get_origin(kind) is not Annotated:
        return ""
    marks = [meta.extra for meta in get_args(kind)[1:] if isinstance(meta, Meta) and meta.extra]
    return next((str(mark[_OTHERWISE]) for mark in marks if _OTHERWISE in mark), "")
