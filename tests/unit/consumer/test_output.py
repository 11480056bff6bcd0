from hypothesis import given
from hypothesis import strategies as st

from consumer.output import TAIL_BYTES, TAIL_LINES, Output


@given(st.lists(st.binary(max_size=4000), max_size=20))
def test_the_tail_is_the_last_fifty_lines_at_most_and_bounded_in_bytes(pieces: list[bytes]) -> None:
    output = Output()
    for piece in pieces:
        output.feed(piece, 0.0)
    tail = output.tail
    assert len(tail) <= TAIL_BYTES
    assert tail.removesuffix("\n").count("\n") < TAIL_LINES


@given(st.lists(st.text("ab\u2028é ", max_size=20), min_size=1, max_size=120), st.sampled_from(["", "\n"]))
def test_the_tail_keeps_whole_lines_however_they_arrive(lines: list[str], end: str) -> None:
    text = "\n".join(lines) + end
    output = Output()
    for byte in text.encode():
        output.feed(bytes([byte]), 0.0)
    kept = lines if end or lines[-1] else lines[:-1]
    assert output.tail.removesuffix("\n").split("\n") == (kept[-TAIL_LINES:] or [""])


def test_what_was_printed_before_a_run_is_none_of_its_evidence() -> None:
    output = Output()
    output.feed(b"before\n", 0.0)
    output.forget()
    output.feed(b"during\n", 0.0)
    assert output.tail == "during\n"
