"""Identifiers that we write by hand are what the standard says they are."""

import time
import uuid

from gateway.contract.ids import uuid7


def test_a_fresh_id_is_a_uuid_of_version_7_in_its_usual_form_and_never_the_same() -> None:
    before = time.time_ns() // 1_000_000
    made = [uuid7() for _ in range(2000)]
    after = time.time_ns() // 1_000_000

    assert len(set(made)) == len(made)
    for text in made:
        read = uuid.UUID(text)
        assert (read.version, read.variant, str(read)) == (7, uuid.RFC_4122, text)
        assert before <= read.int >> 80 <= after
