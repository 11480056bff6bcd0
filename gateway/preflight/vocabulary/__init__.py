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


class _Proven(Exception):
    """The ranks are those that they should be; whoever asked for no more has heard enough."""


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """An encoder that counts as tiktoken does, of the packaged ranks or of `file` (plain or .gz) with its own hash.

    Thread-safe; once built it has about 75 MB, so there is one for a process.
    """

    name: str
    file: Path | None = None
    sha256: str | None = None

    @classmethod
    def load(cls, name: str, *, file: Path | None = None, sha256: str | None = None) -> Vocabulary:
        """Return a vocabulary that is built: 0.3 to 0.6 s of CPU. Raises VocabularyError."""
        vocabulary = cls.at_need(name, file=file, sha256=sha256)
        _ = vocabulary.encoding
        return vocabulary

    @classmethod
    def at_need(cls, name: str, *, file: Path | None = None, sha256: str | None = None) -> Vocabulary:
        """Return a vocabulary to be built for the first text that needs counting; raises VocabularyError.

        Most need none, for no text has more tokens than bytes.
        """
        if name not in PACKAGED:
            raise VocabularyError(f"no vocabulary is called {name!r}; known are {', '.join(PACKAGED)}")
        if file is not None and sha256 is None:
            raise VocabularyError(f"{file} is not used without the sha256 it must have")
        return cls(name=name, file=file, sha256=sha256)

    def prove(self) -> None:
        """See that the ranks are the right ones, at a tenth of what building costs; raises VocabularyError."""

        def proof(_address: str, expected_hash: str) -> dict[bytes, int]:
            content = _checked(_read(self.name, self.file), self.sha256 or expected_hash)
            if self.file is not None:
                _ranks(content)  # whose the hash is may have taken it of anything
            raise _Proven

        try:
            self._recipe(proof)()
        except _Proven:
            return

    @functools.cached_property
    def encoding(self) -> tiktoken.Encoding:
        """The encoder, built when it is first asked for. Raises VocabularyError."""
        import tiktoken  # noqa: PLC0415 - as rare as what is built of it

        def ranks(_address: str, expected_hash: str) -> dict[bytes, int]:
            return _ranks(_checked(_read(self.name, self.file), self.sha256 or expected_hash))

        encoding = tiktoken.Encoding(**self._recipe(ranks)())
        # A second copy of all ranks, kept for decoding and pickling, which nobody here does: 28 MB.
        encoding._mergeable_ranks = {}  # noqa: SLF001
        return encoding

    def _recipe(self, ranks: Callable[[str, str], dict[bytes, int]]) -> Callable[[], dict[str, Any]]:
        from tiktoken_ext import openai_public  # type: ignore[import-untyped] # noqa: PLC0415 - as above

        return _with_ranks_from(openai_public.ENCODING_CONSTRUCTORS[self.name], ranks)


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


def _checked(content: bytes, expected: str) -> bytes:
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected.lower():
        raise VocabularyError(f"the vocabulary's sha256 is {actual}, not {expected}")
    return content


def _ranks(content: bytes) -> dict[bytes, int]:
    try:
        # In bulk, at a third of what line by line costs.
        words = content.split()
        return dict(zip(map(binascii.a2b_base64, words[::2]), map(int, words[1::2]), strict=True))
    except ValueError as error:
        raise VocabularyError(f"a line of the vocabulary is not a token and a rank: {error}") from error
