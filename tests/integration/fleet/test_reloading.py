"""A hang-up swaps the policies of a running node, whole or not at all, and touches nothing else (C13)."""

import signal
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest

from gateway.embedded import EmbeddedBroker
from tests.support.house import House, call
from tests.support.program import Program, Programs
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def house(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    folder = tmp_path_factory.mktemp("reloading")
    programs = Programs(folder)
    config = folder / "lazaretto.toml"
    config.write_text("")
    house = House(programs, broker.url, f"t{uuid4().hex[:10]}", folder, extra={"LAZARETTO_CONFIG": str(config)})
    try:
        house.door(), house.station()
        house.node(workers=2)
        house.warm_up()
        yield house
    finally:
        programs.close()


def node(house: House) -> Program:
    return next(program for program in house.programs.started if program.name.startswith("work"))


def reload(house: House, text: str, answer: str) -> str:
    """Write the file, hang up, and return the line with which the node answers."""
    (house.folder / "lazaretto.toml").write_text(text)
    so_far = node(house).log.count(answer)
    node(house).signal(signal.SIGHUP)
    return node(house).wait_for_log(f"^.*{answer}.*$", count=so_far + 1)[0]


def test_running_item_keeps_the_policy_it_was_claimed_with_and_the_next_one_follows_the_new(house: House) -> None:
    reload(house, '[kinds."waitfail.r"]\nmax_attempts = 1\n', "settings.adopted")
    running = house.accepted("waitfail.r", "running")
    eventually(lambda: house.starts(running))
    said = reload(house, '[kinds."waitfail.r"]\nmax_attempts = 2\n', "settings.adopted")
    assert "policies=waitfail.r" in said
    house.open_gate("waitfail.r")
    assert house.balance([running]) == Counter(quarantined=1)
    later = house.accepted("waitfail.r", "later")
    assert house.balance([later]) == Counter(quarantined=1)
    assert (len(house.starts(running)), len(house.starts(later))) == (1, 2)


def test_wrong_file_is_refused_as_a_whole_with_every_mistake_and_the_old_policies_stay(house: House) -> None:
    reload(house, '[kinds."fail.w"]\nmax_attempts = 1\n', "settings.adopted")
    wrong = (
        'typo = 1\nmax_attempts = 0\n[kinds."fail.w"]\nmax_attempts = 2\n'
        '[kinds."a"]\nmax_crashes = "x"\n[kinds."b"]\nnope = 1\n'
    )
    reload(house, wrong, "settings.refused .*nope")
    for mistake in ("typo", "LAZARETTO_MAX_ATTEMPTS", "max_crashes"):
        node(house).wait_for_log(f"settings.refused .*{mistake}")
    ticket = house.accepted("fail.w", "old-rule")
    assert house.balance([ticket]) == Counter(quarantined=1)
    assert len(house.starts(ticket)) == 1
    health = node(house).wait_for_log(r"health=(http://\S+)/healthz")[1]
    metrics = call("GET", f"{health}/metrics").body["text"]
    assert 'lazaretto_settings_reloads_total{result="refused"} 1.0' in metrics


def test_policies_that_do_not_fit_what_the_node_was_started_with_are_refused(house: House) -> None:
    said = reload(house, 'ack_timeout = "2h"\nrun_deadline = "1h"\n', "settings.refused")
    assert "acknowledgement timeout of 1800 s" in said


def test_settings_that_changed_but_need_a_restart_are_named_without_their_values(house: House) -> None:
    text = 'outage_window = "90s"\nnode_name = "another"\nworkers = 7\nmax_attempts = 4\n'
    said = reload(house, text, "settings.need_restart")  # the number of workers is from the command line, which wins
    assert said.endswith("settings=LAZARETTO_OUTAGE_WINDOW,LAZARETTO_NODE_NAME")
    node(house).wait_for_log("settings.adopted policies=default")


def test_hang_up_during_a_drain_changes_nothing_about_it(house: House) -> None:
    reload(house, "", "settings.adopted")
    held = house.accepted("stubborn.d", "held")
    eventually(lambda: house.starts(held))
    node(house).signal(signal.SIGTERM)
    node(house).wait_for_log("drain.begun")
    reload(house, "max_attempts = 5\n", "settings.adopted")
    house.open_gate("stubborn.d")
    assert node(house).wait(20.0) == 0
    assert house.balance([held]) == Counter(done=1)
    assert len(house.starts(held)) == 1
