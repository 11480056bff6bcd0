"""The vocabulary is the packaged one, byte for byte, or the program does not start."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pytest

from gateway.preflight.vocabulary import Vocabulary, VocabularyError


def test_it_counts_known_texts_as_published(vocabulary: Vocabulary) -> None:
    assert vocabulary.encoding.encode("hello world") == [24912, 2375]
    assert vocabulary.encoding.n_vocab == 200_019


def test_loading_needs_no_network_and_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("socket.socket.connect", None)
    assert Vocabulary.load("cl100k_base").encoding.n_vocab == 100_277
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(VocabularyError, match="known are o200k_base, cl100k_base"):
        Vocabulary.load("../../etc/passwd")


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    changed = tmp_path / "ranks.gz"
    changed.write_bytes(gzip.compress(b"YQ== 0\n"))
    with pytest.raises(VocabularyError, match="sha256"):
        Vocabulary.load("o200k_base", file=changed, sha256="0" * 64)


def test_a_file_of_ones_own_is_used_only_with_its_hash(tmp_path: Path) -> None:
    ranks = b"".join(b"%s %d\n" % (__import__("base64").b64encode(bytes([byte])), byte) for byte in range(256))
    file = tmp_path / "bytes.tiktoken"
    file.write_bytes(ranks)
    with pytest.raises(VocabularyError, match="sha256"):
        Vocabulary.load("o200k_base", file=file)
    own = Vocabulary.load("o200k_base", file=file, sha256=hashlib.sha256(ranks).hexdigest())
    assert len(own.encoding.encode("four")) == 4


def test_a_missing_file_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(VocabularyError, match="cannot be read"):
        Vocabulary.load("o200k_base", file=tmp_path / "absent", sha256="0" * 64)
