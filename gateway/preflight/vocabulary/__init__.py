"""The token vocabularies that travel inside the package, and how one becomes an encoder.

Owns loading: packaged ranks, a checked hash, tiktoken's own pattern and special tokens. Never downloads:
`tiktoken.get_encoding` does so at first use, without a timeout and holding a lock.
"""

from __future__ import annotations

import binascii
import functools
import gzip
import hashlib
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tiktoken

PACKAGED = ("o200k_base", "cl100k_base")
"""Names of the vocabularies for which the positions of safe cuts were proven (see `tokens`)."""


class VocabularyError(Exception):
    """The vocabulary is unknown, unreadable or not the one it should be. Fails the start; there is no going on."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """An encoder that counts as tiktoken does. Thread-safe; about 75 MB, so one for a process."""

    name: str
    build: Callable[[], tiktoken.Encoding]

    @functools.cached_property
    def encoding(self) -> tiktoken.Encoding:
        """The encoder, built when it is first asked for. Raises VocabularyError."""
        return self.build()

    @classmethod
    def load(cls, name: str, *, file: Path | None = None, sha256: str | None = None) -> Vocabulary:
        """Build the vocabulary `name` from the packaged ranks, or from `file` (plain or .gz) with its own hash.

        Takes 0.3 to 0.6 s of CPU and reads one file. Raises VocabularyError.
        """
        vocabulary = cls.at_need(name, file=file, sha256=sha256)
        _ = vocabulary.encoding
        return vocabulary

    @classmethod
    def at_need(cls, name: str, *, file: Path | None = None, sha256: str | None = None) -> Vocabulary:
        """Return the vocabulary that `load` does, to be built at the first text that needs counting.

        Most need none: no text has more tokens than bytes. Raises VocabularyError for what can be told at once.
        """
        if name not in PACKAGED:
            raise VocabularyError(f"no vocabulary is called {name!r}; known are {', '.join(PACKAGED)}")
        if file is not None and sha256 is None:
            raise VocabularyError(f"{file} is not used without the sha256 it must have")

        def packaged_ranks(_address: str, expected_hash: str) -> dict[bytes, int]:
            return _ranks(_read(name, file), sha256 or expected_hash)

        def build() -> tiktoken.Encoding:
            import tiktoken  # noqa: PLC0415 - as rare as what is built of it
            from tiktoken_ext import openai_public  # type: ignore[import-untyped] # noqa: PLC0415 - the same

            constructor: Callable[[], dict[str, Any]] = openai_public.ENCODING_CONSTRUCTORS[name]
            encoding = tiktoken.Encoding(**_with_ranks_from(constructor, packaged_ranks)())
            # A second copy of all ranks, kept for decoding and pickling, which nobody here does: 28 MB.
            encoding._mergeable_ranks = {}  # noqa: SLF001
            return encoding

        return cls(name=name, build=build)


def _with_ranks_from(
    constructor: Callable[[], dict[str, Any]], ranks: Callable[[str, str], dict[bytes, int]]
) -> Callable[[], dict[str, Any]]:
    """The recipe of tiktoken itself (pattern, special tokens, hash) with our reader in place of its downloader."""
    if not isinstance(constructor, FunctionType) or "load_tiktoken_bpe" not in constructor.__code__.co_names:
        raise VocabularyError("this tiktoken builds its encodings in a way this version does not know")
    return FunctionType(constructor.__code__, {**constructor.__globals__, "load_tiktoken_bpe": ranks})


def _read(name: str, file: Path | None) -> bytes:
    try:
        if file is None:
            packed = resources.files(__name__).joinpath(f"{name}.tiktoken.gz").read_bytes()
        else:
            packed = file.read_bytes()
        return gzip.decompress(packed) if packed.startswith(b"\x1f\x8b") else packed
    except (OSError, EOFError, zlib.error) as error:
        raise VocabularyError(f"the vocabulary {name} cannot be read: {error}") from error


def _ranks(content: bytes, expected: str) -> dict[bytes, int]:
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected.lower():
        raise VocabularyError(f"the vocabulary's sha256 is {actual}, not {expected}")
    try:
        # In bulk, at a third of what line by line costs: every process that counts tokens does it at its start.
        words = content.split()
        return dict(zip(map(binascii.a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    except ValueError as error:
        raise VocabularyError(f"a line of the vocabulary is not a token and a rank: {error}") from error
