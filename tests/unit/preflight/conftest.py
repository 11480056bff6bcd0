"""One vocabulary for all tests of the preflight: it takes half a second and 75 MB to build."""

from __future__ import annotations

import pytest

from gateway.preflight.vocabulary import Vocabulary


@pytest.fixture(scope="session")
def vocabulary() -> Vocabulary:
    return Vocabulary.load("o200k_base")
