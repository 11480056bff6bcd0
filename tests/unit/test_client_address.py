"""Where a request came from: believed of trusted proxies only, and only as far as they can know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.client_address import client_address, networks

OURS = networks(["10.0.0.0/8", "fd00::/8", "192.0.2.1"])


def _address(peer: str | None, *, forwarded: list[str] | None = None, xff: list[str] | None = None) -> str | None:
    return client_address(peer, forwarded=forwarded or [], x_forwarded_for=xff or [], trusted=OURS)


def test_headers_of_a_peer_that_is_no_trusted_proxy_say_nothing() -> None:
    assert _address("198.51.100.7", xff=["203.0.113.9"], forwarded=["for=203.0.113.9"]) == "198.51.100.7"


@pytest.mark.parametrize(
    ("xff", "address"),
    [
        (["203.0.113.9"], "203.0.113.9"),
        (["1.2.3.4, 203.0.113.9"], "203.0.113.9"),  # the client wrote the first one
        (["1.2.3.4", "203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        (["203.0.113.9:4711"], "203.0.113.9"),
        (["[2001:db8::1]:80"], "2001:db8::1"),
        (["::ffff:203.0.113.9"], "203.0.113.9"),
        (["10.9.9.9, 10.0.0.2"], "10.9.9.9"),  # nobody but ours
        (["203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2"),
        (["<script>"], "10.0.0.1"),
        ([""], "10.0.0.1"),
        (["203.0.113.9," + "x" * 9000], "10.0.0.1"),
    ],
)
def test_the_right_most_address_that_is_not_ours_wins(xff: list[str], address: str) -> None:
    assert _address("10.0.0.1", xff=xff) == address


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        (["for=203.0.113.9;proto=https;by=10.0.0.1"], "203.0.113.9"),
        (['For="[2001:db8:cafe::17]:4711"'], "2001:db8:cafe::17"),
        (['for=1.2.3.4, for="203.0.113.9:80"', "for=10.0.0.3"], "203.0.113.9"),
        (['for="1.2.3.4,for=5.6.7.8", for=203.0.113.9'], "203.0.113.9"),
        (["for=_hidden"], "10.0.0.1"),
        (["for=203.0.113.9, proto=https"], "10.0.0.1"),
    ],
)
def test_the_standard_header_is_read_alike(forwarded: list[str], address: str) -> None:
    assert _address("10.0.0.1", forwarded=forwarded) == address


def test_two_headers_that_contradict_each_other_are_both_not_believed() -> None:
    assert _address("10.0.0.1", forwarded=["for=1.2.3.4"], xff=["203.0.113.9"]) == "10.0.0.1"
    assert _address("10.0.0.1", forwarded=["for=203.0.113.9"], xff=["203.0.113.9"]) == "203.0.113.9"


def test_a_connection_without_an_address_has_none() -> None:
    assert _address(None, xff=["203.0.113.9"]) is None


@given(st.lists(st.text(max_size=200), max_size=5), st.lists(st.text(max_size=200), max_size=5))
def test_no_header_can_do_more_than_name_an_address(forwarded: list[str], xff: list[str]) -> None:
    found = _address("192.0.2.1", forwarded=forwarded, xff=xff)
    assert found is not None
    assert networks([found])


@given(st.ip_addresses().filter(lambda ip: not any(ip in network for network in OURS)), st.text(max_size=50))
def test_what_a_client_writes_left_of_a_proxys_entry_changes_nothing(client: object, lie: str) -> None:
    honest = _address("10.0.0.1", xff=[str(client)])
    assert _address("10.0.0.1", xff=[f"{lie}, {client}"]) == honest
