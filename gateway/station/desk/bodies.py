"""What the JSON API is sent, as models: read strictly, and described in the OpenAPI document by the same models.

Owns the members of each body, which programs rely on: add to them, do not rename. Decides nothing.
"""

import base64
import binascii
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from gateway.contract.outcomes import CHARGED, Outcome
from gateway.contract.topology import Lane
from gateway.station import duties, pardons
from gateway.station.decided import DiscardCode
from gateway.station.duties import MAX_OWNER
from gateway.station.edits import Edit
from gateway.station.holding import ItemState
from gateway.station.operations import DEFAULT_PACE, MAX_PACE, Kind
from gateway.station.reviewing import MAX_NOTE
from gateway.station.selection import MAX_TEXT, WAITING, Filter

MOST_TICKETS: Final = 10_000

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")
]
Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000, pattern=r"^[^\x00]*$")]
Short = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=r"^[^\x00]*$")]
Note = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NOTE, pattern=r"^[^\x00]*$")
]
Owner = Annotated[str, AfterValidator(duties.owner), StringConstraints(strip_whitespace=True, min_length=1)]
Moment = Annotated[float, Field(ge=0, le=2**53, description="Unix seconds")]


class Body(BaseModel):
    """One document that is sent to us."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Decide(Body):
    """Who wants it and why."""

    reason: Words
    by: Name | None = Field(default=None, description="who decides, where the desk does not know who asks")


class DecideItem(Decide):
    """A decision about the generation that the reviewer saw."""

    generation: int | None = Field(default=None, ge=0, le=2**53, description="the one that was seen; else the newest")


class EditBody(Body):
    """What is to be different in what is sent: the whole body, or members of it."""

    body_base64: str | None = None
    content_type: Short | None = None
    text: str | None = None
    subject: str | None = None
    attributes: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check_body(self) -> Self:
        try:
            base64.b64decode(self.body_base64 or "", validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("body_base64: this is no base64") from None
        return self

    def edit(self) -> Edit:
        """Return what it says."""
        return Edit(
            body=None if self.body_base64 is None else base64.b64decode(self.body_base64),
            content_type=self.content_type,
            text=self.text,
            subject=self.subject,
            attributes=self.attributes,
        )


class ReplayBody(DecideItem):
    """An item is to be sent again."""

    lane: Lane = Lane.WORK
    resume: bool = Field(default=False, description="send again what an earlier replay left in doubt")
    edit: EditBody | None = None
    dry_run: bool = Field(default=False, description="say what an edit changes and whether the door would let it in")


class DiscardBody(DecideItem):
    """An item is to be ended."""

    code: DiscardCode = DiscardCode.OTHER


class AssignBody(Decide):
    """An item is to be given to somebody."""

    owner: Owner | None = Field(description="a person or a team; null: back to the owner of its kind")
    seen: str | None = Field(default=None, max_length=MAX_OWNER, description="whose it was when the reviewer looked")


class ReleaseBody(Decide):
    """A hold is to be ended."""

    seen: Moment | None = Field(default=None, description="when the hold began that is meant")


class NoteBody(Body):
    """Something is to be written down."""

    text: Note
    by: Name | None = None


class SignBody(Decide):
    """A record is to be signed; the reason is what is signed: what was found out, and what was decided."""

    digest: Short = Field(description="of the record as the signer has read it")


class FilterBody(Body):
    """Which items: all of it has to be true; of several values one."""

    kinds: tuple[Short, ...] = ()
    reasons: tuple[Short, ...] = ()
    outcomes: tuple[Outcome, ...] = Field(default=(), description="of a run in the item's generation")
    signal: int | None = Field(default=None, ge=1, le=128, description="that killed a worker")
    build: Short | None = Field(default=None, description="of a run's handler")
    clients: tuple[Short, ...] = ()
    since: Moment | None = None
    until: Moment | None = None
    text: Short | None = Field(default=None, description="in ticket id or detail")
    tickets: tuple[Short, ...] = Field(default=(), max_length=MOST_TICKETS)
    owners: tuple[Name | Literal[""], ...] = Field(default=(), description="whose it is; the empty name is nobody's")
    groups: tuple[Short, ...] = Field(default=(), description="ids of what it died of")
    on_hold: bool | None = None
    overdue: bool | None = Field(default=None, description="whether it should have been decided by now")
    unconfirmed: bool | None = Field(default=None, description="whether it was sent, and never confirmed")

    def chosen(self, states: tuple[ItemState, ...] = (ItemState.HELD,)) -> Filter:
        """Return the filter."""
        return Filter(states=states, **dict(self))


class OperationBody(Body):
    """Many items are to be replayed, resumed or discarded; made as a draft that changes nothing."""

    act: Kind
    filter: FilterBody = Field(default_factory=FilterBody)
    lane: Lane = Field(default=Lane.WORK, description="of a replay; what is resumed has the lane of its replay")
    code: DiscardCode = DiscardCode.OTHER
    pace: float = Field(default=DEFAULT_PACE, gt=0, le=MAX_PACE, description="items a second")
    canary: int = Field(default=0, ge=0, le=1000, description="so many first; the others if all of these end well")
    by: Name | None = None


class StartBody(Decide):
    """A draft is to be done."""

    expect: int | None = Field(default=None, ge=0, description="how many items can be done, as the reviewer saw it")


def _charged(outcome: Outcome) -> Outcome:
    if outcome not in CHARGED:
        raise ValueError(f"no such run is charged; write one of {', '.join(sorted(CHARGED))}")
    return outcome


Charged = Annotated[Outcome, AfterValidator(_charged)]


class ResetQuery(Body):
    """Which items on their way: those with a charged run that all of this is true of."""

    kind: Short | None = None
    outcomes: tuple[Charged, ...] = Field(default=(), description="of that run; none: any that is charged")
    node: Short | None = Field(default=None, description="of that run")
    since: Moment | None = None
    until: Moment | None = None

    def selected(self) -> pardons.Selection:
        """Return the selection."""
        return pardons.Selection(**{name: getattr(self, name) for name in ResetQuery.model_fields})


class ResetBody(ResetQuery, Decide):
    """They are to get their attempts back."""

    expect: int = Field(ge=0, description="how many there are, as whoever decides has seen it")


class Listing(FilterBody):
    """The query of a list of items; its names are those of `PARAMETERS`."""

    states: tuple[ItemState, ...] = WAITING
    limit: int = Field(default=100, ge=1, le=500)
    after: Short | None = None

    def selected(self) -> Filter:
        """Return the filter."""
        named = {name: getattr(self, name) for name in FilterBody.model_fields}
        return Filter(states=self.states, **named)


class GroupsQuery(FilterBody):
    """The query of a list of groups."""

    states: tuple[ItemState, ...] = WAITING

    def selected(self) -> Filter:
        """Return the filter."""
        return Filter(**dict(self))


class RejectionsQuery(Body):
    """The query of a list of refusals."""

    kind: Short | None = None
    client: Short | None = None
    rule: Short | None = None
    since: Moment | None = None
    until: Moment | None = None
    group: Short | None = Field(default=None, description="some of rule, client, kind, node, comma separated")
    supposed: tuple[Short, ...] = ()


class AuditQuery(Body):
    """The query of the audit log."""

    since: Moment | None = None
    until: Moment | None = None
    actor: Short | None = None
    act: Short | None = None
    ticket: Short | None = None
    operation: Short | None = None


PARAMETERS: Final = {
    "kind": "kinds",
    "reason": "reasons",
    "outcome": "outcomes",
    "client": "clients",
    "ticket": "tickets",
    "state": "states",
    "owner": "owners",
    "group": "groups",
    "if": "supposed",
}
"""Names in a query that may come several times, and the members that they fill where a model has those."""
