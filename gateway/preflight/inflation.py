"""Gzip, deflate, zstd and Brotli undone under a cap, byte by byte as they arrive.

Owns the content encodings that are supported: zstd and Brotli where their libraries are there. Memory and CPU are
bounded by the cap, not by what the input claims: 48 KB of gzip can hold 50 MB.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from types import ModuleType
from typing import Any, Final, Protocol, assert_never

MAX_MEMBERS = 256
"""A gzip file may be many, one after the other (log rotation makes them), and so may zstd be many frames. Each costs a
fresh decompressor, so a body of thousands of empty ones is no honest input."""

ZSTD_WINDOW_LOG = 23
"""A frame may look back for 8 MiB, and no encoder for HTTP needs more (RFC 9659): that memory is the decoder's."""
_ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"

BROTLI_WINDOW_LOG = 22
"""A stream may look back for 4 MiB, which is what encoders take by default. The decoder fills the whole window before
it looks at a bound on what it may give out: 6 ms for this one, 26 ms for the 16 MiB that RFC 7932 allows."""
_BROTLI = "brotli"


@unique
class Coding(StrEnum):
    """The supported values of Content-Encoding; anything else would pass through undecoded."""

    IDENTITY = "identity"
    GZIP = "gzip"
    DEFLATE = "deflate"
    ZSTD = "zstd"
    BROTLI = "br"

    @classmethod
    def named(cls, value: str | None) -> Coding | None:
        """The coding a header value means (None and "" are identity), or None: not supported."""
        return _CODINGS.get((value or "").strip().lower())


def _has_zstd() -> bool:
    try:
        return importlib.util.find_spec(_ZSTD) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


@functools.cache
def _brotli() -> ModuleType:
    return importlib.import_module(_BROTLI)


def _has_brotli() -> bool:
    # Before 1.2 there was no bound on what it gives out at once.
    return importlib.util.find_spec(_BROTLI) is not None and hasattr(_brotli().Decompressor, "can_accept_more_data")


_IS_HERE = {Coding.ZSTD: _has_zstd, Coding.BROTLI: _has_brotli}
SUPPORTED = tuple(coding for coding in Coding if coding not in _IS_HERE or _IS_HERE[coding]())
"""In this installation."""
_CODINGS = {"": Coding.IDENTITY, "x-gzip": Coding.GZIP, **{coding.value: coding for coding in SUPPORTED}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The bytes are not what their coding says, or end too early."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """The content has more bytes than the cap; how many more is not known."""

    at_least: int


class _Stream(Protocol):
    """What zlib's and zstd's decompressors both are, and Brotli's is made to be."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream has come."""

    @property
    def unused_data(self) -> bytes:
        """What came after it."""

    def decompress(self, data: bytes, size: int, /) -> bytes:
        """Undo some more, up to a size."""


class Inflater:
    """Takes the bytes of one body piece by piece; gives its content, or the first thing wrong with it.

    Holds at most `max_bytes` + 1 bytes of content. After a problem, it must not be fed again.
    """

    def __init__(self, coding: Coding, *, max_bytes: int) -> None:
        self._coding = coding
        self._max = max_bytes
        self._content: list[bytes] = []
        self._size = 0
        self._members = 0
        self._stream: _Stream | None = None
        self._start = b""

    @property
    def held(self) -> int:
        """How many bytes of content it holds by now."""
        return self._size

    def feed(self, data: bytes) -> Broken | Overflow | None:
        """Take more bytes. None: so far, so good."""
        match self._coding:
            case Coding.IDENTITY:
                return self._take(data)
            case Coding.GZIP | Coding.ZSTD:
                return self._undo_members(data)
            case Coding.DEFLATE:
                return self._undeflate(data)
            case Coding.BROTLI:
                return self._unbrotli(data)
            case _:
                assert_never(self._coding)

    def finish(self) -> bytes | Broken:
        """The whole content, once everything was fed."""
        if self._coding is not Coding.IDENTITY and (self._stream is not None or self._start or not self._members):
            return Broken(detail=f"the {self._coding} stream ends too early")
        return b"".join(self._content)

    def _take(self, content: bytes) -> Overflow | None:
        self._size += len(content)
        if self._size > self._max:
            return Overflow(at_least=self._size)
        self._content.append(content)
        return None

    def _undo_members(self, data: bytes) -> Broken | Overflow | None:
        while data:
            if self._stream is None:
                # gzip and gunzip pad with zeros, and everybody skips them.
                data = data.lstrip(b"\0") if self._members and self._coding is Coding.GZIP else data
                if not data:
                    return None
                if self._members == MAX_MEMBERS:
                    return Broken(detail=f"the {self._coding} has more than {MAX_MEMBERS} members")
                self._begin(zlib.decompressobj(16 + zlib.MAX_WBITS) if self._coding is Coding.GZIP else _unzstd())
            problem, data = self._advance(data)
            if problem is not None:
                return problem
        return None

    def _undeflate(self, data: bytes) -> Broken | Overflow | None:
        if self._stream is None:
            if self._members:
                return Broken(detail="something follows the end of the deflate stream") if data else None
            data = self._start + data
            self._start = data
            if len(data) < 2:  # noqa: PLR2004 - the two bytes of a zlib header
                return None
            self._start = b""
            # "deflate" means zlib (RFC 9110), but some clients send the bare stream; no bare stream starts like this.
            zlib_header = data[0] & 0x0F == zlib.DEFLATED and int.from_bytes(data[:2]) % 31 == 0
            self._begin(zlib.decompressobj(zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS))
        return self._advance_alone(data)

    def _unbrotli(self, data: bytes) -> Broken | Overflow | None:
        if self._stream is None and data:
            if self._members:
                return Broken(detail="something follows the end of the br stream")
            self._begin(_Unbrotli())
        return self._advance_alone(data) if data else None

    def _advance_alone(self, data: bytes) -> Broken | Overflow | None:
        problem, rest = self._advance(data)
        if problem is None and rest:
            return Broken(detail=f"something follows the end of the {self._coding} stream")
        return problem

    def _begin(self, stream: _Stream) -> None:
        self._stream = stream
        self._members += 1

    def _advance(self, data: bytes) -> tuple[Broken | Overflow | None, bytes]:
        """Feed the open stream; gives a problem, and what is left over after the stream's end."""
        stream = self._stream
        assert stream is not None  # noqa: S101 - both callers have just opened it
        try:
            content = stream.decompress(data, self._max - self._size + 1)
        except _refusal(self._coding) as error:
            return Broken(detail=f"this is not {self._coding}: {error}"), b""
        problem = self._take(content)
        if problem is None and stream.eof:
            self._stream = None
            return None, stream.unused_data
        # Unconsumed input means that the output cap was hit, which _take has just reported.
        return problem, b""


@functools.cache
def _zstd() -> ModuleType:
    return importlib.import_module(_ZSTD)  # when the first such body comes: most never see one


def _unzstd() -> _Stream:
    zstd: Any = _zstd()
    options: Mapping[int, int] = {zstd.DecompressionParameter.window_log_max: ZSTD_WINDOW_LOG}
    stream: _Stream = zstd.ZstdDecompressor(options=options)
    return stream


class _Unbrotli:
    """Brotli's decompressor under the names of zlib's, with a bound on its window."""

    unused_data: Final = b""
    """It takes what follows the end for an error of its own."""

    def __init__(self) -> None:
        self._stream = _brotli().Decompressor()
        self._has_begun = False

    @property
    def eof(self) -> bool:
        return bool(self._stream.is_finished())

    def decompress(self, data: bytes, size: int, /) -> bytes:
        if not self._has_begun:
            self._has_begun = True
            if (log := _brotli_window_log(data[0])) > BROTLI_WINDOW_LOG:
                raise _brotli().error(f"its window is {1 << log - 20} MiB, at most {1 << BROTLI_WINDOW_LOG - 20}")
        content = [self._stream.process(data, output_buffer_limit=size)]
        left = size - len(content[0])
        while left > 0 and not self._stream.can_accept_more_data():
            content.append(self._stream.process(b"", output_buffer_limit=left))
            left -= len(content[-1])
        return b"".join(content)


def _brotli_window_log(first: int) -> int:
    """The size of the window that a stream's first byte asks for, as a power of two (RFC 7932, section 9.1)."""
    if not first & 1:
        return 16
    if upper := first >> 1 & 7:
        return 17 + upper
    lower = first >> 4 & 7
    return 8 + lower if lower > 1 else 17  # 1 is no window, and the decoder says so


def _refusal(coding: Coding) -> type[Exception]:
    match coding:
        case Coding.ZSTD:
            refusal: type[Exception] = _zstd().ZstdError
        case Coding.BROTLI:
            refusal = _brotli().error
        case _:
            refusal = zlib.error
    return refusal


def inflate(body: bytes, coding: Coding, *, max_bytes: int) -> bytes | Broken | Overflow:
    """The content of a whole body."""
    inflater = Inflater(coding, max_bytes=max_bytes)
    return inflater.feed(body) or inflater.finish()
