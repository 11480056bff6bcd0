"""Does one item that kills its worker (with `--node`: the whole node) harm anybody but itself?

The killer stands at the head of the queue, good items behind it; two workers, one isolation lane. The same run without
the killer is the measure, beside it. The benchmark does what an orchestrator does: it starts a dead node again.
"""

import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.house import House
from benchmarks.peers import storming
from benchmarks.peers.registry import Peer
from benchmarks.programs import Program
from benchmarks.scale import Scale
from benchmarks.waiting import BenchmarkFailed, until
from benchmarks.webhook import Webhook
from gateway.contract.topology import Lane

_WITHIN = 90.0
"""Seconds for one leg, then it counts what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """What one run through the queue came to."""

    seconds: float
    """From the first start of any handler to the end of the last good item."""
    good_done: int
    good_charged: int
    good_run_twice: int
    killer_starts: int = 0
    records: int = 0
    alert_after_s: float = 0.0
    """From the killer's last start, at which it dies, to the alert's arrival."""


def measure(scale: Scale, peers: Sequence[Peer] = (), *, node: bool) -> dict[str, Any]:
    """Run clean and stormy legs in turn; counts are the worst of all legs, times are medians. Then peers."""
    kind = "nodekiller" if node else "killer"
    clean, storms = [], []
    with Webhook() as webhook, House(LAZARETTO_ALERT_URLS=webhook.url) as house:
        house.open()
        for pair in range(scale.pairs):
            order = ["clean", "storm"] if pair % 2 == 0 else ["storm", "clean"]  # neither is always the warmer one
            for leg in order:
                if leg == "clean":
                    clean.append(_run(house, f"clean-{pair}", scale.good_items))
                else:
                    storms.append(_run(house, f"storm-{pair}", scale.good_items, kind, webhook))
    theirs = {}
    if peers:
        with House() as house:
            theirs = {peer.name: storming.run(house, peer, scale.good_items, scale.storm_s) for peer in peers}
    return {
        "killer_starts": max(leg.killer_starts for leg in storms),
        "good_total": scale.good_items,
        "good_done": min(leg.good_done for leg in storms),
        "good_charged": max(leg.good_charged for leg in storms),
        "good_run_twice": max(leg.good_run_twice for leg in storms),
        "time_ratio_to_clean": round(
            statistics.median(storm.seconds / calm.seconds for storm, calm in zip(storms, clean, strict=True)), 3
        ),
        "alert_after_s": round(statistics.median(leg.alert_after_s for leg in storms), 3),
        "records": min(leg.records for leg in storms),
        "peers": theirs,
        "clean_seconds": [round(leg.seconds, 3) for leg in clean],
        "storm_seconds": [round(leg.seconds, 3) for leg in storms],
    }


def _run(house: House, name: str, count: int, killer_kind: str = "", webhook: Webhook | None = None) -> Leg:
    killer, good = f"{name}-killer", [f"{name}-{number}" for number in range(count)]
    if killer_kind:
        house.submit(killer, killer_kind)
    house.submit_all(good, "good")
    wanted = {*good, *([killer] if killer_kind else [])}
    nodes = {lane: house.node(lane) for lane in Lane}
    _keep_up(house, nodes, wanted)
    statuses = house.ends(good, _WITHIN)
    noted = [note for note in house.notes() if note.ticket in wanted]
    starts = Counter(note.ticket for note in noted if note.what == "start")
    charged = {note.ticket for note in noted if note.attempt > 1} | {
        ticket
        for ticket, status in statuses.items()
        if status.get("attempts", 0) > 1 or status["state"] == "quarantined"
    }
    leg = Leg(
        seconds=max(note.at for note in noted if note.ticket != killer) - min(note.at for note in noted),
        good_done=sum(status["state"] == "done" for status in statuses.values()),
        good_charged=len(charged & set(good)),
        good_run_twice=sum(starts[ticket] > 1 for ticket in good),
    )
    if webhook is not None:
        died_at = max(note.at for note in noted if note.ticket == killer)
        until(lambda: webhook.told_of(killer) is not None, 30.0, f"an alert that {killer} is in quarantine")
        until(lambda: len(house.dossier(killer).get("runs", [])) >= starts[killer], 30.0, "a record of each run")
        leg = Leg(
            seconds=leg.seconds,
            good_done=leg.good_done,
            good_charged=leg.good_charged,
            good_run_twice=leg.good_run_twice,
            killer_starts=starts[killer],
            records=len(house.dossier(killer)["runs"]),
            alert_after_s=(webhook.told_of(killer) or died_at) - died_at,
        )
    for program in nodes.values():
        program.stop()
    return leg


def _keep_up(house: House, nodes: dict[Lane, Program], wanted: set[str]) -> None:
    """Start every dead node again until all good items have run and the killer, if any, is held."""
    killers = [ticket for ticket in wanted if ticket.endswith("-killer")]
    good = wanted - set(killers)

    def over() -> bool:
        for lane, program in nodes.items():
            if program.ended:
                nodes[lane] = house.node(lane)
        ended = house.ended()
        return good <= ended and all(house.status(killer)["state"] == "quarantined" for killer in killers)

    try:
        until(over, _WITHIN, "every good item has run")
    except BenchmarkFailed:
        ended = house.ended()
        if not good & ended:
            raise
