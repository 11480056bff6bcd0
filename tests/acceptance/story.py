"""The story of ticket 9417, scene by scene, on a stage that is ready.

Owns what happens and in which order; what it meant is judged in `findings`, once everything has ended.
"""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import aio_pika

from tests.acceptance.letters import LETTERS, LOG, REFUND_WITH_A_COMMA, TICKET, Letter
from tests.acceptance.pasted_logs import incident_log
from tests.acceptance.report import Report
from tests.acceptance.stage import FIRST_BUILD, REPAIRED_BUILD, Stage
from tests.acceptance.status_page import Reader
from tests.support.house import Answer
from tests.support.waiting import eventually

KILLER: Final = Letter(
    id="9417",
    language="English",
    kind=LOG,
    subject="Invoices fail since the update",
    text=incident_log(280_000),
)
BIG_LOG: Final = incident_log(2_000_000).encode("utf-16")
"""4 MB: two bytes for each character, and a byte order mark."""
BIG_LOG_TYPE: Final = "text/plain; charset=utf-16"
BYPASSING_ID: Final = "legacy-export-7"
REASON: Final = "the prompt builder no longer compares every line with every other"


@dataclass
class Story:
    """What happens; each scene leaves behind what the findings need."""

    stage: Stage
    report: Report
    page: Reader = field(init=False)
    tickets: dict[str, str] = field(default_factory=dict)
    """Ticket id by letter id, of everything that was accepted."""
    killer_answer: Answer = field(init=False)
    refusal: Answer = field(init=False)
    bypassing: str = field(init=False)
    exit_codes: dict[str, int | None] = field(init=False)
    under_way: int = 0
    at_quarantine: dict[str, Any] = field(init=False)
    replayed: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.page = Reader(lambda: self.stage.status(KILLER.id))

    def play(self) -> None:
        """Play all of it; raises AssertionError where it cannot go on."""
        half = len(LETTERS) // 2
        say = self.report.scene
        say(f"{half} customers write; among them, ticket 9417 and a refund with a comma in its amount")
        self.send([*LETTERS[:2], KILLER, REFUND_WITH_A_COMMA, *LETTERS[2:half]])
        say("somebody posts a 4 MB log in UTF-16; another program publishes it past the door")
        self.refusal = self.stage.post(f"/v1/tickets?kind={LOG}", BIG_LOG_TYPE, BIG_LOG)
        asyncio.run(self.publish_past_the_door())
        eventually(lambda: self.page.has_shown("retrying"), 60.0, saying="9417 waits for its second start")
        say("9417 has killed its first worker; the other customers write, and in the middle of it comes a deploy")
        self.send(LETTERS[half:])
        self.deploy_under_way({self.tickets[letter.id] for letter in LETTERS[half:]})
        self.stage.until(KILLER.id, "quarantined")
        say("9417 is in quarantine; the rest ends")
        for ticket in self.tickets.values():
            self.stage.until(ticket, "done", "quarantined")
        eventually(self.bypassing_is_held, 30.0, saying="what went past the door is in quarantine")
        # An alert follows its item within a second; every channel has its own.
        eventually(lambda: len(self.stage.webhook.received("Quarantine")) == 3, saying="three alerts were received")
        self.at_quarantine = self.stage.document("show", KILLER.id)
        say("the prompt builder is repaired and deployed; a reviewer replays 9417")
        self.stage.deploy(REPAIRED_BUILD)
        self.replayed = self.stage.document("replay", KILLER.id, "--by", "vera", "--reason", REASON)
        self.stage.until(KILLER.id, "done")
        self.page.stop()

    def stop(self) -> None:
        """End what the story has begun on the side, however far it came."""
        self.page.stop()

    def send(self, letters: Iterable[Letter]) -> None:
        """Post letters; each must be accepted."""
        for letter in letters:
            answer = self.stage.post(*letter.request())
            assert answer.status == 202, f"{letter.id} was not accepted: {answer.status} {answer.body}"
            self.tickets[letter.id] = answer.body["id"]
            if letter is KILLER:
                self.killer_answer = answer
                self.page.start()

    async def publish_past_the_door(self) -> None:
        """Publish the log as a program does that knows RabbitMQ and nothing of us."""
        async with await aio_pika.connect(self.stage.broker.url) as connection, connection.channel() as channel:
            exchange = await channel.get_exchange("tickets")
            message = aio_pika.Message(BIG_LOG, message_id=BYPASSING_ID, type=TICKET, content_type=BIG_LOG_TYPE)
            await exchange.publish(message, routing_key="work")

    def bypassing_is_held(self) -> bool:
        """Tell whether the station holds what went past the door; keeps the id that it was given."""
        held = [item["ticket"] for item in self.stage.document("list") if item["ticket"].startswith(BYPASSING_ID)]
        if held:
            self.bypassing = held[0]
        return bool(held)

    def deploy_under_way(self, awaited: set[str]) -> None:
        """Replace the consumers as soon as one of the `awaited` tickets has started."""
        old = dict(self.stage.consumers)
        eventually(lambda: any(note.ticket in awaited for note in self.stage.notes(what="start")), 30.0)
        self.exit_codes = self.stage.deploy(FIRST_BUILD)
        self.under_way = sum(
            int(number) for node in old.values() for number in re.findall(r"drain\.begun under_way=(\d+)", node.log)
        )
