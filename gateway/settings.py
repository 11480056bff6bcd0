"""What an operator can turn: one frozen value for each program of the gateway, checked whole.

Owns defaults, units and bounds. Reports every mistake at once and never starts anything; the names themselves, and how
durations and sizes are written, stand in `gateway.contract.knobs`.
"""

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, SettingsConfigDict

from gateway.alert_settings import AlertSettings
from gateway.contract import knobs
from gateway.contract.event_loop import Wanted
from gateway.contract.topology import Topology
from gateway.depot import place_of
from gateway.limit_settings import LimitSettings
from gateway.setting_values import (
    Address,
    Bytes,
    Depot,
    Listen,
    Proxies,
    Seconds,
    StoreUrl,
    Switch,
    Urls,
    WebAddress,
    unit,
)
from gateway.station import duties
from gateway.station.duties import Duty
from gateway.station.surge import Threshold

_PREFIX: Final = re.compile(knobs.PREFIX_PATTERN)
_HEADER: Final = r"^[A-Za-z0-9-]{0,64}$"


class SettingsError(ValueError):
    """Settings that cannot be used; `problems` has a sentence for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


class _Shared(BaseSettings):
    """What door and station have in common."""

    model_config = SettingsConfigDict(
        env_prefix=knobs.PREFIX, enable_decoding=False, frozen=True, extra="ignore", validate_default=True
    )

    broker_url: Urls = Field(
        default=("amqp://guest:guest@127.0.0.1:5673/",),
        min_length=1,
        description="RabbitMQ; several URLs, comma separated, for a cluster; amqps:// verifies certificates",
    )
    data: Path = Field(default=Path(".lazaretto"), description="folder for everything this machine keeps")
    store_url: StoreUrl = Field(
        default="", description="the station's store; empty: sqlite+aiosqlite:///<data>/station.db"
    )
    prefix: str = Field(default="tickets", description="first part of every exchange and queue name")
    delay_unit: Seconds = Field(default=1.0, ge=0.001, le=60, description="shortest delay of a retry")
    attachments: Depot = Field(
        default="",
        description="where larger attachments lie: a folder, or s3://bucket/prefix?endpoint=...&region=...; empty:"
        " <data>/attachments",
    )
    drain_grace: Seconds = Field(default=30.0, gt=0, description="time to finish at SIGTERM")
    log: Literal["console", "json"] = Field(default="console", description="form of the log: console or json")

    @property
    def topology(self) -> Topology:
        """Names of exchanges and queues under this prefix."""
        return Topology(prefix=self.prefix, delay_unit=self.delay_unit)

    @property
    def store(self) -> str:
        """The store's URL, in the data folder unless another one is named."""
        return self.store_url or f"sqlite+aiosqlite:///{self.data / 'station.db'}"

    @property
    def depot(self) -> str:
        """Where attachments lie that do not travel: an absolute path, or a URL."""
        return place_of(self.attachments, self.data)

    @model_validator(mode="after")
    def _check_prefix(self) -> Self:
        if _PREFIX.fullmatch(self.prefix) is None:
            raise ValueError("LAZARETTO_PREFIX: use lower-case letters, digits, - and _, with dots between parts")
        return self


class DoorSettings(LimitSettings, _Shared):
    """All that `python -m gateway` reads."""

    door: Listen = Field(default=Address("127.0.0.1", 8080), description="where the door listens")
    door_workers: int = Field(default=1, ge=1, le=64, description="processes that share the door's port")
    event_loop: Wanted = Field(
        default="auto", description="auto: uvloop (the extra `fast`) where it is installed, else asyncio's own"
    )
    node_name: str = Field(
        default_factory=socket.gethostname, min_length=1, max_length=64, description="this machine's name in records"
    )
    queue_settle: Seconds = Field(default=3.0, le=60, description="wait until a new queue's confirms are trusted")
    keys: Path | None = Field(
        default=None, description="file of API keys, made by `python -m gateway keys`; empty: nobody needs one"
    )
    trust_network: Switch = Field(
        default=False,
        description="on: listen beyond loopback without API keys, because only trusted machines reach this network",
    )
    tls_certificate: Path | None = Field(default=None, description="certificate chain in PEM form; empty: plain HTTP")
    tls_key: Path | None = Field(default=None, description="private key of that certificate in PEM form")
    trusted_proxies: Proxies = Field(
        default=(), description="proxies that may say where a request came from: addresses and CIDR ranges"
    )
    attachments_inline: Bytes = Field(
        default=64 << 10,
        description="largest attachment that travels in its message; others go to LAZARETTO_ATTACHMENTS",
    )
    refused_sample: Bytes = Field(
        default=1024, le=16_384, description="beginning of a refused body that is kept for review; 0: nothing of it"
    )
    body_deadline: Seconds = Field(
        default=30.0, gt=0, description="time for a client to send its whole body; below 4 KiB in 5 s it ends sooner"
    )
    publish_deadline: Seconds = Field(default=5.0, gt=0, description="time for the broker to confirm, then 503")
    idempotency_expiry: Seconds = Field(
        default=86_400.0, ge=60, description="how long an Idempotency-Key, or an id of a client's own, is remembered"
    )
    status_wait: Seconds = Field(
        default=30.0, ge=0, le=300, description="longest `?wait=` of a question after a ticket"
    )
    status_look: Seconds = Field(
        default=1.0, ge=0.05, le=60, description="pause between looks at the store for all who wait"
    )
    max_waiting: int = Field(default=1000, ge=0, le=10_000, description="clients that wait at a time, then 503")
    max_connections: int = Field(
        default=4096,
        ge=1,
        le=1_000_000,
        description="connections open in each process; then quiet ones close, then 503",
    )
    max_queued: int = Field(default=100_000, ge=1, description="messages waiting in both lanes, then 503")
    max_inflight: int = Field(default=1024, ge=1, description="publishes that wait for their confirm, then 503")
    max_inflight_bytes: Bytes = Field(
        default=64 << 20, description="bytes of requests in memory, half of them for unfinished ones; then 503"
    )

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        problems = []
        if not self.door.is_loopback and self.keys is None and not self.trust_network:
            problems.append(
                f"LAZARETTO_DOOR: {self.door} is reachable from other machines and the door knows no API keys; name a"
                " file of them in LAZARETTO_KEYS (make one with `python -m gateway keys new`), listen on 127.0.0.1, or"
                " set LAZARETTO_TRUST_NETWORK=on where only trusted machines reach it"
            )
        if bool(self.tls_certificate) != bool(self.tls_key):
            problems.append("LAZARETTO_TLS_CERTIFICATE, LAZARETTO_TLS_KEY: set both or none")
        problems += self.misjudged()
        try:
            largest = max(self.largest_bodies)
        except ValueError:
            largest = self.max_body_bytes
        if self.max_inflight_bytes < 2 * largest:
            problems.append("LAZARETTO_MAX_INFLIGHT_BYTES: must hold at least two bodies of max_body_bytes")
        if problems:
            raise ValueError("\n".join(problems))
        return self


class StationSettings(AlertSettings, LimitSettings, _Shared):
    """All that `python -m gateway.station` reads."""

    desk: Listen = Field(default=Address("127.0.0.1", 8081), description="where the reviewers' desk listens")
    desk_url: WebAddress = Field(
        default="", description="the desk's address as reviewers reach it; empty: http://<desk>"
    )
    desk_keys: Path | None = Field(
        default=None,
        description="file of the keys of people at the desk, made by `python -m gateway.station keys`; empty: nobody is"
        " asked for one",
    )
    desk_user: str = Field(
        default="",
        max_length=64,
        description="who acts at a desk that asks for no key; empty: its forms ask for a name",
    )
    desk_reveal: Switch = Field(
        default=False, description="on: whoever looks at a body says why, and that is put on record"
    )
    desk_session: Seconds = Field(default=43_200.0, ge=60, description="time from signing in to being asked again")
    desk_user_header: str = Field(
        default="",
        pattern=_HEADER,
        description="header in which a proxy names who asks, such as X-Forwarded-User; empty: no proxy is believed",
    )
    desk_groups_header: str = Field(
        default="X-Forwarded-Groups",
        pattern=_HEADER,
        description="header in which that proxy lists the person's groups: lazaretto-reader, -reviewer, -admin count",
    )
    desk_proxies: Proxies = Field(
        default=(), description="addresses and CIDR ranges of the proxies whose word on who asks is believed"
    )
    keys: Path | None = Field(
        default=None, description="the doors' file of API keys, which also names the clients' callbacks"
    )
    callback_private: Switch = Field(
        default=False, description="on: callbacks may go to private addresses, and in clear"
    )
    callback_patience: Seconds = Field(
        default=86_400.0, gt=0, description="time for which a callback is tried, downtime left out; then it is dead"
    )
    ticket_retention: Seconds = Field(
        default=7_776_000.0,
        ge=0,
        description="time from the end of a ticket that was never held until nothing is known of it; 0: never",
    )
    refusal_retention: Seconds = Field(
        default=7_776_000.0,
        ge=0,
        description="time for which refusals, expired passes and sent alerts about no item are kept; 0: for ever",
    )
    item_retention: Seconds = Field(
        default=7_776_000.0,
        ge=0,
        description="time from decision and end of a ticket until an item's body and headers are removed; 0: never",
    )
    reconcile_every: Seconds = Field(
        default=300.0, ge=0, description="time between two comparisons of queue, store and journal; 0: none"
    )
    reconcile_patience: Seconds = Field(
        default=900.0, ge=0, description="time for which something may be on its way before it is a mismatch"
    )
    attachments_grace: Seconds = Field(
        default=86_400.0, ge=60, description="time until stored attachments of which no ticket was heard may be removed"
    )
    attachments_retention: Seconds = Field(
        default=7 * 86_400.0,
        ge=0,
        description="time that stored attachments are kept after their ticket's end, and as long as an item's body",
    )
    refusal_window: Seconds = Field(
        default=300.0,
        ge=60,
        le=86_400,
        description="time whose refusals by one rule are compared with what is usual",
    )
    refusal_surge: int = Field(
        default=50, ge=0, description="refusals by one rule in that time before anybody is told; 0: nobody is"
    )
    refusal_factor: float = Field(default=3.0, ge=1, description="times the usual number that a surge is")
    owner: str = Field(
        default="", max_length=64, description="who reviews what is held, of kinds without an `owner`; empty: nobody"
    )
    review_within: Seconds = Field(
        default=86_400.0,
        ge=0,
        description="time for a decision, of kinds without a `review_within`; a reminder follows; 0: no deadline",
    )
    replay_limit: int = Field(default=10, ge=0, description="how many times an item may be replayed; 0: no limit")
    restore_window: Seconds = Field(
        default=30 * 86_400.0, ge=0, description="time within which what was discarded can be restored"
    )
    operation_lease: Seconds = Field(
        default=30.0, ge=1, le=3600, description="silence after which another station takes an operation over"
    )

    @property
    def refusal_threshold(self) -> Threshold:
        """From when on refusals surge."""
        return Threshold(window=self.refusal_window, least=self.refusal_surge, factor=self.refusal_factor)

    @property
    def desk_link(self) -> str:
        """The beginning of links in alerts, without a slash at its end."""
        return (self.desk_url or f"http://{self.desk}").rstrip("/")

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        problems = self.misjudged()
        if problems:
            raise ValueError("\n".join(problems))
        return self

    @property
    def duties(self) -> dict[str, Duty]:
        """Whose each kind is to review, and within which time; raises ValueError."""
        return duties.read(Duty(owner=duties.owner(self.owner), review_within=self.review_within), self.kinds)

    @model_validator(mode="after")
    def _check_duties(self) -> Self:
        _ = self.duties
        return self

    @model_validator(mode="after")
    def _check_desk(self) -> Self:
        problems = []
        if not self.desk.is_loopback and self.desk_keys is None and not self.desk_user_header:
            problems.append(
                f"LAZARETTO_DESK: {self.desk} is reachable from other machines and the desk would ask nobody who he is;"
                " name a file of keys in LAZARETTO_DESK_KEYS (make one with `python -m gateway.station keys new`) or a"
                " proxy's header in LAZARETTO_DESK_USER_HEADER, or listen on 127.0.0.1"
            )
        if not self.desk.is_loopback and self.desk.is_everywhere and not self.desk_url:
            problems.append(
                f"LAZARETTO_DESK_URL: {self.desk} is no address that anybody can ask for; say how reviewers reach it"
            )
        if bool(self.desk_user_header) != bool(self.desk_proxies):
            problems.append("LAZARETTO_DESK_USER_HEADER, LAZARETTO_DESK_PROXIES: set both or none")
        if problems:
            raise ValueError("\n".join(problems))
        return self


AnySettings = TypeVar("AnySettings", bound=_Shared)


def load(model: type[AnySettings], **overrides: object) -> AnySettings:
    """Read environment and configuration file; `overrides` come from the command line and win.

    Raises SettingsError with every mistake found.
    """
    try:
        table = knobs.read_table(os.environ)
    except ValueError as error:
        raise SettingsError([str(error)]) from error
    problems = knobs.unknown(os.environ, table)
    sources = (InitSettingsSource(model, overrides), EnvSettingsSource(model), InitSettingsSource(model, table))
    try:
        settings = model(_build_sources=(sources, {}))
    except ValidationError as error:
        raise SettingsError(problems + list(_sentences(error))) from error
    if problems:
        raise SettingsError(problems)
    return settings


def help_text(model: type[_Shared]) -> str:
    """List every setting of a program with its unit and default, for `--help`."""
    lines = [
        "settings (environment, or the same names in lower case without prefix in lazaretto.toml,",
        "which LAZARETTO_CONFIG may name):",
    ]
    for name, info in model.model_fields.items():
        default = (
            _shown(info.default)
            if info.default_factory is None
            else "none"
            if info.annotation is not str
            else "this machine's"
        )
        lines.append(f"  {knobs.PREFIX}{name.upper()} [{unit(info.annotation, info.metadata)}, default {default}]")
        lines.append(f"      {info.description}")
    return "\n".join(lines)


def _sentences(error: ValidationError) -> Iterator[str]:
    for mistake in error.errors(include_url=False):
        text = mistake["msg"].removeprefix("Value error, ")
        where = ".".join(str(part) for part in mistake["loc"][:1])
        for line in text.splitlines():
            yield f"{knobs.PREFIX}{where.upper()}: {line}" if where else line


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple) and not isinstance(value, Address):
        return ",".join(value) or "none"
    return "none" if value in (None, "") else f"{value:g}" if isinstance(value, float) else str(value)
