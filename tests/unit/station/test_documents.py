"""JSON for terminals and browsers: nothing in it acts or hides, and it reads as what was written."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from gateway.station.documents import written

_texts = st.text(st.characters(exclude_categories=["Cs"])) | st.text(st.characters(categories=["Cc", "Cf", "Zl", "Zp"]))


@given(document=st.dictionaries(_texts, st.lists(_texts, max_size=3), max_size=3))
def test_what_acts_or_hides_is_escaped_and_comes_back(document: dict[str, list[str]]) -> None:
    for text in (written(document), written(document, indent=True)):
        assert not [c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}]
        assert json.loads(text) == document


def test_scripts_stay_readable() -> None:
    assert written({"a": "Käse 漢 😀"}) == '{"a":"Käse 漢 😀"}'
