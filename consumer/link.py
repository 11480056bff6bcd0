"""One session with what lives exactly as long: its journal and its intake."""

from dataclasses import dataclass

from consumer.intake import Intake
from consumer.journal import Journal
from consumer.session import Session


@dataclass(frozen=True, slots=True)
class Link:
    """What a delivery is settled with; over when its session is."""

    session: Session
    journal: Journal
    intake: Intake
