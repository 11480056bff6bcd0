"""Gzip and deflate undone under a cap, byte by byte as they arrive.

Owns the two content encodings that are supported. Memory and CPU are bounded by the cap, not by what the input claims:
48 KB of gzip can hold 50 MB.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import assert_never

MAX_MEMBERS = 256
"""A gzip file may be many, one after the other (log rotation makes them). Each costs a fresh decompressor, so a body of
thousands of empty ones is no honest input."""


@unique
class Coding(StrEnum):
    """The supported values of Content-Encoding; anything else would pass through undecoded."""

    IDENTITY = "identity"
    GZIP = "gzip"
    DEFLATE = "deflate"

    @classmethod
    def named(cls, value: str | None) -> Coding | None:
        """The coding a header value means (None and "" are identity), or None: not supported."""
        return _CODINGS.get((value or "").strip().lower())


_CODINGS = {"": Coding.IDENTITY, "x-gzip": Coding.GZIP, **{coding.value: coding for coding in Coding}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """The bytes are not what their coding says, or end too early."""

    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Overflow:
    """The content has more bytes than the cap; how many more is not known."""

    at_least: int


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
        self._stream: zlib._Decompress | None = None
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
            case Coding.GZIP:
                return self._gunzip(data)
            case Coding.DEFLATE:
                return self._undeflate(data)
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

    def _gunzip(self, data: bytes) -> Broken | Overflow | None:
        while data:
            if self._stream is None:
                # gzip and gunzip pad with zeros, and everybody skips them.
                data = data.lstrip(b"\0") if self._members else data
                if not data:
                    return None
                if self._members == MAX_MEMBERS:
                    return Broken(detail=f"the gzip has more than {MAX_MEMBERS} members")
                self._begin(16 + zlib.MAX_WBITS)
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
            self._begin(zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS)
        problem, rest = self._advance(data)
        if problem is None and rest:
            return Broken(detail="something follows the end of the deflate stream")
        return problem

    def _begin(self, window_bits: int) -> None:
        self._stream = zlib.decompressobj(window_bits)
        self._members += 1

    def _advance(self, data: bytes) -> tuple[Broken | Overflow | None, bytes]:
        """Feed the open stream; gives a problem, and what is left over after the stream's end."""
        stream = self._stream
        assert stream is not None  # noqa: S101 - both callers have just opened it
        try:
            content = stream.decompress(data, self._max - self._size + 1)
        except zlib.error as error:
            return Broken(detail=f"this is not {self._coding}: {error}"), b""
        problem = self._take(content)
        if problem is None and stream.eof:
            self._stream = None
            return None, stream.unused_data
        # Unconsumed input means that the output cap was hit, which _take has just reported.
        return problem, b""


def inflate(body: bytes, coding: Coding, *, max_bytes: int) -> bytes | Broken | Overflow:
    """The content of a whole body."""
    inflater = Inflater(coding, max_bytes=max_bytes)
    return inflater.feed(body) or inflater.finish()
