"""Coded bodies come out whole or not at all, and never larger than the cap."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable
from typing import TypeAlias

import brotli
import psutil
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from gateway.preflight.inflation import (
    BROTLI_WINDOW_LOG,
    MAX_MEMBERS,
    ZSTD_WINDOW_LOG,
    Broken,
    Coding,
    Inflater,
    Overflow,
    inflate,
)

CAP = 100_000


def _raw_deflate(content: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(content) + stream.flush()


def _zstd(content: bytes, *, window_log: int = 20) -> bytes:
    stream = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: window_log})
    return stream.compress(content) + stream.flush()


def _brotli(content: bytes, *, window_log: int = 22) -> bytes:
    return bytes(brotli.compress(content, lgwin=window_log))


Encoder: TypeAlias = tuple[Coding, Callable[[bytes], bytes]]
ENCODERS: list[Encoder] = [
    (Coding.IDENTITY, bytes),
    (Coding.GZIP, gzip.compress),
    (Coding.DEFLATE, zlib.compress),
    (Coding.DEFLATE, _raw_deflate),
    (Coding.ZSTD, _zstd),
    (Coding.BROTLI, _brotli),
]
CODED = ENCODERS[1:]


def _in_pieces(body: bytes, coding: Coding, sizes: list[int]) -> bytes | Broken | Overflow:
    inflater = Inflater(coding, max_bytes=CAP)
    while body:
        size = sizes.pop() if sizes else len(body)
        problem = inflater.feed(body[:size])
        if problem is not None:
            return problem
        body = body[size:]
    return inflater.finish()


@given(st.sampled_from(ENCODERS), st.binary(max_size=3000), st.lists(st.integers(1, 50), max_size=30))
def test_content_comes_back_however_it_is_cut_up(encoder: Encoder, content: bytes, sizes: list[int]) -> None:
    coding, encode = encoder
    assert _in_pieces(encode(content), coding, sizes) == content


@given(st.sampled_from(CODED), st.binary(min_size=1, max_size=500), st.data())
def test_a_truncated_stream_is_broken(encoder: Encoder, content: bytes, data: st.DataObject) -> None:
    coding, encode = encoder
    whole = encode(content)
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    assert isinstance(inflate(cut, coding, max_bytes=CAP), Broken)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.integers(0, 20))
def test_all_members_of_a_gzip_are_read_and_padding_is_skipped(members: list[bytes], padding: int) -> None:
    body = b"".join(map(gzip.compress, members)) + b"\0" * padding
    assert inflate(body, Coding.GZIP, max_bytes=CAP) == b"".join(members)


@given(
    st.sampled_from([Coding.GZIP, Coding.DEFLATE, Coding.ZSTD, Coding.BROTLI]),
    st.binary(max_size=500),
    st.lists(st.integers(1, 9), max_size=9),
)
def test_no_bytes_ever_raise(coding: Coding, body: bytes, sizes: list[int]) -> None:
    assert isinstance(_in_pieces(body, coding, sizes), bytes | Broken | Overflow)


@given(st.sampled_from(ENCODERS), st.integers(0, 300), st.integers(0, 300))
def test_the_cap_is_exact(encoder: Encoder, size: int, cap: int) -> None:
    coding, encode = encoder
    content = b"x" * size
    inflated = inflate(encode(content), coding, max_bytes=cap)
    assert isinstance(inflated, Overflow) if size > cap else inflated == content


@pytest.mark.parametrize(("coding", "encode"), CODED)
def test_a_bomb_costs_no_more_memory_than_the_cap(coding: Coding, encode: Callable[[bytes], bytes]) -> None:
    bomb = encode(b"\0" * 50_000_000)
    tracemalloc.start()
    try:
        assert isinstance(inflate(bomb, coding, max_bytes=CAP), Overflow)
        assert tracemalloc.get_traced_memory()[1] < 4 * CAP + 2 * len(bomb)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("coding", "encode"), [(Coding.GZIP, gzip.compress), (Coding.ZSTD, _zstd)])
def test_thousands_of_empty_members_are_no_honest_body(coding: Coding, encode: Callable[[bytes], bytes]) -> None:
    assert isinstance(inflate(encode(b"") * (MAX_MEMBERS + 1), coding, max_bytes=CAP), Broken)


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=5), st.lists(st.integers(1, 50), max_size=30))
def test_all_frames_of_a_zstd_are_read_and_those_to_skip_are_skipped(frames: list[bytes], sizes: list[int]) -> None:
    skippable = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    body = skippable.join(map(_zstd, frames)) + skippable
    assert _in_pieces(body, Coding.ZSTD, sizes) == b"".join(frames)


def test_half_a_gigabyte_in_sixteen_kilobytes_of_zstd_costs_no_more_than_the_cap() -> None:
    stream = zstd.ZstdCompressor()
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(512)) + stream.flush()
    assert len(bomb) < 20_000
    inflater = Inflater(Coding.ZSTD, max_bytes=CAP)
    before = psutil.Process().memory_info().rss

    problem = inflater.feed(bomb)

    assert problem == Overflow(at_least=CAP + 1)
    assert psutil.Process().memory_info().rss - before < 32 << 20


@pytest.mark.parametrize("window_log", [ZSTD_WINDOW_LOG + 1, 27])
def test_a_frame_that_wants_to_look_back_further_than_http_has_it_is_broken(window_log: int) -> None:
    assert isinstance(inflate(_zstd(b"x", window_log=window_log), Coding.ZSTD, max_bytes=CAP), Broken)
    assert inflate(_zstd(b"x", window_log=ZSTD_WINDOW_LOG), Coding.ZSTD, max_bytes=CAP) == b"x"


@pytest.mark.parametrize("window_log", range(10, 25))
def test_a_brotli_stream_may_look_back_for_four_mebibytes(window_log: int) -> None:
    content = bytes(range(256)) * 100
    undone = inflate(_brotli(content, window_log=window_log), Coding.BROTLI, max_bytes=CAP)
    if window_log > BROTLI_WINDOW_LOG:
        assert undone == Broken(detail=f"this is not br: its window is {1 << window_log - 20} MiB, at most 4")
    else:
        assert undone == content


@pytest.mark.parametrize("cut", [1, 5, 50])
def test_a_brotli_bomb_in_pieces_costs_no_more_than_its_window(cut: int) -> None:
    bomb = _brotli(bytes(200 << 20), window_log=BROTLI_WINDOW_LOG)
    inflater = Inflater(Coding.BROTLI, max_bytes=CAP)
    before = psutil.Process().memory_info().rss
    problem = inflater.feed(bomb[:cut]) or inflater.feed(bomb[cut:])
    assert isinstance(problem, Overflow)
    assert psutil.Process().memory_info().rss - before < 16 << 20


def test_bytes_after_the_end_are_an_error_not_dropped() -> None:
    assert isinstance(inflate(_brotli(b"a") + b"junk", Coding.BROTLI, max_bytes=CAP), Broken)
    assert isinstance(_in_pieces(_brotli(b"a") + b"junk", Coding.BROTLI, [1] * 99), Broken)
    assert isinstance(inflate(_zstd(b"a") + b"junk", Coding.ZSTD, max_bytes=CAP), Broken)
    assert isinstance(inflate(gzip.compress(b"a") + b"junk", Coding.GZIP, max_bytes=CAP), Broken)
    assert isinstance(inflate(zlib.compress(b"a") + b"junk", Coding.DEFLATE, max_bytes=CAP), Broken)


def test_a_plain_body_that_claims_gzip_is_broken() -> None:
    assert isinstance(inflate(b'{"kind":"x"}', Coding.GZIP, max_bytes=CAP), Broken)


@pytest.mark.parametrize(
    ("value", "coding"),
    [
        (None, Coding.IDENTITY),
        ("", Coding.IDENTITY),
        ("identity", Coding.IDENTITY),
        (" GZip ", Coding.GZIP),
        ("x-gzip", Coding.GZIP),
        ("deflate", Coding.DEFLATE),
        ("br", Coding.BROTLI),
        ("compress", None),
        ("zstd", Coding.ZSTD),
        ("gzip, gzip", None),
    ],
)
def test_only_codings_that_are_undone_are_taken(value: str | None, coding: Coding | None) -> None:
    assert Coding.named(value) is coding
