import logging
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.contract import logs


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("9417", "9417"),
        (17, "17"),
        ("two words", '"two words"'),
        ("", '""'),
        ('say "no"', '"say \\"no\\""'),
        ("a=b", '"a=b"'),
        ("line\nbreak", "line\\nbreak"),
        ("grün", "grün"),
        ("\x1b[31m", "\\x1b[31m"),
        (ValueError("odd"), '"ValueError: odd"'),
    ],
)
def test_field_is_one_printable_word_or_a_quoted_text(value: object, shown: str) -> None:
    assert logs.escaped(value) == shown


@given(text=st.text())
def test_whatever_a_field_holds_stays_within_its_line(text: str) -> None:
    shown = logs.escaped(text)
    assert shown.isprintable()
    assert shown
    assert shown.startswith('"') or not set(shown) & set(' "=')


@given(text=st.text(alphabet="abc grün\x00\n", min_size=2049, max_size=5000))
def test_field_is_of_bounded_length(text: str) -> None:
    assert len(logs.escaped(text)) <= 4 * 2048 + 2


@given(moment=st.floats(0, 2**31))
def test_line_begins_with_the_time_of_day_in_milliseconds(moment: float) -> None:
    record = logging.LogRecord("consumer", logging.INFO, "", 0, "run.started", (), None)
    record.created, record.msecs = moment, (moment - int(moment)) * 1000
    line = logs.formatter("console").format(record)
    assert line.startswith(time.strftime("%H:%M:%S.", time.gmtime(moment)))
    assert line[12:] == " info consumer: run.started"
