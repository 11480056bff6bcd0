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


@given(st.lists(st.text("ab\u2028é", max_size=5000), max_size=20), st.integers(1, 7000))
def test_lines_are_passed_on_in_order_without_the_empty_ones_and_long_ones_in_pieces(
    lines: list[str], share: int
) -> None:
    output = Output()
    printed = "".join(f"{line}\n" for line in lines).encode()
    passed: list[str] = []
    for at in range(0, len(printed), share):
        some, dropped = output.feed(printed[at : at + share], 0.0)
        assert dropped == 0
        passed += some
    assert all(0 < len(line.encode("utf-8", "replace")) <= 2048 * 3 for line in passed), "cut in the middle of a letter"
    plain = [line for line in lines if line]
    assert [line for line in passed if len(line.encode()) < 2048][:1] == [
        line for line in plain if len(line.encode()) < 2048
    ][:1] or any(len(line.encode()) >= 2048 for line in plain)
    if all(len(line.encode()) <= 2048 for line in plain):
        assert passed == plain
    assert output.rest() == ""


@given(st.integers(0, 700), st.integers(1, 9000), st.sampled_from(["", "x" * 30, "x" * 5000]))
def test_what_is_beyond_two_hundred_lines_a_second_is_dropped_and_counted(count: int, share: int, end: str) -> None:
    output = Output()
    printed = b"line\n" * count + end.encode()
    passed: list[str] = []
    for at in range(0, len(printed), share):
        passed += output.feed(printed[at : at + share], 5.0)[0]
    whole = count + len(end) // 2048
    assert len(passed) == min(200, whole)
    assert output.feed(b"", 6.0)[1] == whole - len(passed)
    assert output.rest() == end[len(end) - len(end) % 2048 :]


def test_empty_lines_are_nobodys_news() -> None:
    output = Output()
    assert output.feed(b"\n" * 10_000 + b"word\n\n\nlast", 0.0) == (["word"], 0)
    assert output.rest() == "last"
