"""API keys and the file of their hashes: what opens the door, and what is refused whole."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway import api_key, key_ring
from gateway.api_key import ApiKey
from gateway.key_lines import BadKeyFile
from gateway.key_ring import Key
from gateway.quota import Rate

rates = st.none() | st.builds(Rate, amount=st.integers(1, 10**12), seconds=st.integers(1, 10**6))
keys = st.builds(
    Key,
    id=st.from_regex(r"[0-9a-z]{12}", fullmatch=True),
    client=st.from_regex(key_ring.CLIENT_PATTERN, fullmatch=True).filter(lambda name: name != key_ring.ANONYMOUS),
    sha256=st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    kinds=st.none() | st.lists(st.sampled_from(["support.ticket", "a", "b-1"]), min_size=1).map(tuple),
    requests=rates,
    bytes=rates,
    metrics=st.booleans(),
    created=st.none() | st.datetimes(timezones=st.just(UTC)),
    expires=st.none() | st.datetimes(timezones=st.just(UTC)),
)


def _line(key: ApiKey, client: str = "acme", **members: object) -> str:
    return key_ring.line(Key(id=key.id, client=client, sha256=key.digest, **members))  # type: ignore[arg-type]


def test_a_new_key_opens_and_no_other_text_does() -> None:
    fresh, other = api_key.new(), api_key.new()
    ring = key_ring.read(_line(fresh))

    opened = ring.opens(fresh)
    assert opened is not None
    assert opened.client == "acme"
    assert ring.opens(other) is None
    forged = api_key.read(fresh.text[:-10] + other.text[-10:])
    assert forged is None, "its check letters cannot fit"


def test_a_key_with_a_known_id_and_another_secret_opens_nothing() -> None:
    fresh = api_key.new()
    ring = key_ring.read(_line(fresh))

    assert ring.opens(ApiKey(id=fresh.id, text=api_key.new().text)) is None


def test_a_key_is_known_by_its_form_and_has_256_bits() -> None:
    made = {api_key.new().text for _ in range(200)}

    assert len(made) == 200
    for text in made:
        assert text.startswith("lz_")
        assert api_key.read(text) == ApiKey(id=text.split("_")[1], text=text)
        assert 62**43 > 2**256


def test_neither_a_key_nor_its_line_shows_the_secret() -> None:
    fresh = api_key.new()
    secret = fresh.text.split("_")[2]

    assert secret not in repr(fresh)
    assert secret not in _line(fresh)


@given(st.text(max_size=100))
def test_what_is_no_key_is_read_as_none(text: str) -> None:
    assert api_key.read(text) is None


@given(keys)
def test_a_line_is_read_as_it_was_written(key: Key) -> None:
    (found,) = key_ring.read(key_ring.line(key))
    assert found == key


def test_comments_and_blank_lines_say_nothing() -> None:
    assert len(key_ring.read(f"# ours\n\n   \n{_line(api_key.new())}\n  # theirs\n")) == 1


@pytest.mark.parametrize(
    ("changed", "mistake"),
    [
        ('"client":"acme"', "client"),
        ('"client":"anonymous"', "anonymous"),
        ('"sha256":"short"', "sha256"),
        ('"requests":"many"', "requests: write"),
        ('"bytes":"0/s"', "bytes: a quota of nothing"),
        ('"kinds":[]', "kinds"),
        ('"kinds":"support.ticket"', "kinds"),
        ('"metrics":"yes"', "metrics"),
        ('"expires":"soon"', "expires"),
        ('"role":"admin"', "nothing but"),
        ("no json", "no JSON object"),
    ],
)
def test_one_mistake_refuses_the_whole_file_and_is_named_by_its_line(changed: str, mistake: str) -> None:
    members = {"id": '"abcdefghijkl"', "client": '"Acme!"', "sha256": f'"{"a" * 64}"'}
    if changed.startswith('"'):
        name, _, value = changed.partition(":")
        members |= {"client": '"acme"'} if name != '"client"' else {}
        members[name.strip('"')] = value
        if changed == '"client":"acme"':
            members["client"] = '"Not A Name"'
    line = "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"
    with pytest.raises(BadKeyFile, match=mistake) as refused:
        key_ring.read(f"{_line(api_key.new())}\n{line if changed.startswith(chr(34)) else changed}")
    assert refused.value.problems[0].startswith("line 2:")


@pytest.mark.parametrize(
    "paste", ["{key}", '{{"{key}": 1}}', '{{"id": "{key}"}}', '{{"id":"abcdefghijkl","client":"{key}"}}']
)
def test_a_key_pasted_into_the_file_by_mistake_is_not_repeated(paste: str) -> None:
    text = api_key.new().text
    with pytest.raises(BadKeyFile) as refused:
        key_ring.read(paste.format(key=text))
    assert text not in str(refused.value)


def test_a_client_may_have_two_keys_but_only_one_quota() -> None:
    first, second = api_key.new(), api_key.new()
    quota = Rate(amount=5, seconds=1)
    assert len(key_ring.read(f"{_line(first, requests=quota)}\n{_line(second, requests=quota)}")) == 2
    with pytest.raises(BadKeyFile, match="another quota"):
        key_ring.read(f"{_line(first, requests=quota)}\n{_line(second)}")


def test_an_id_occurs_once() -> None:
    line = _line(api_key.new())
    with pytest.raises(BadKeyFile, match="twice"):
        key_ring.read(f"{line}\n{line}")


def test_a_key_ends_at_its_date() -> None:
    key = Key(id="a" * 12, client="acme", sha256="0" * 64, expires=datetime(2027, 1, 1, tzinfo=UTC))
    moment = datetime(2027, 1, 1, tzinfo=UTC).timestamp()
    assert not key.expired(moment - 1)
    assert key.expired(moment)
