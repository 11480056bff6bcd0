"""Every cut leaves valid text (cases D44)."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.contract.text import clip, clip_tail, printable

anything = st.text(st.characters(codec=None, exclude_categories=[]), max_size=200)


@given(anything, st.integers(16, 120))
def test_a_cut_is_valid_utf8_within_its_limit_and_keeps_the_right_end(text: str, limit: int) -> None:
    head, tail = clip(text, limit), clip_tail(text, limit)
    assert max(len(head.encode()), len(tail.encode())) <= limit
    clean = printable(text)
    if len(clean.encode()) <= limit:
        assert head == tail == clean
    else:
        assert clean.startswith(head.removesuffix("…[cut]"))
        assert clean.endswith(tail.removeprefix("…[cut]"))


def test_an_emoji_on_the_boundary_is_left_out_whole() -> None:
    assert clip("abcde" + "😀" * 9, 15) == "abcde…[cut]"
