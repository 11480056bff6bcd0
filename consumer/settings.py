"""The fleet node's own knobs: one frozen value, validated whole before anything starts.

Reads `LAZARETTO_*` variables and `lazaretto.toml`; names that are no setting of any program are errors.
"""

import os
import socket
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Discriminator, Field, Json, Tag, ValidationError, field_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, InitSettingsSource, SettingsConfigDict

from consumer import policy, probe
from consumer.briefing import HardLimits
from consumer.policy import Policies, Policy
from consumer.probe import Probe
from consumer.storm import OnStorm, Rule
from gateway.contract import knobs, rules
from gateway.contract.envelope import MAX_SPENT, Spent
from gateway.contract.event_loop import Wanted
from gateway.contract.topology import Lane, Topology
from gateway.depot import place_of, problem

Duration = Annotated[float, BeforeValidator(knobs.duration)]
Size = Annotated[int, BeforeValidator(knobs.size)]
Table = Annotated[
    Annotated[Json[dict[str, Any]], Tag("json")] | Annotated[dict[str, Any], Tag("table")],
    Discriminator(lambda value: "json" if isinstance(value, str) else "table"),
]
"""JSON in the environment, a table in the file; the former replaces the latter whole."""


_MAX_PORT = 65535
_SETTLE_SECONDS = 60.0


class Isolation(StrEnum):
    """Where a handler runs."""

    PROCESS = "process"
    INLINE = "inline"


class SettingsInvalid(Exception):
    """One line for each mistake."""


class Settings(BaseSettings):
    """Everything a node needs to know; the field's description is its line in `--help`."""

    model_config = SettingsConfigDict(env_prefix=knobs.PREFIX, enable_decoding=False, extra="ignore", frozen=True)

    broker_url: str = Field(
        "amqp://guest:guest@127.0.0.1:5673/", description="AMQP URLs, comma separated for a cluster"
    )
    data: Path = Field(Path(".lazaretto"), description="folder of everything that is kept on this machine")
    store_url: str = Field("", description="SQLAlchemy URL of the store; default: SQLite in the data folder")
    attachments: str = Field(
        "",
        description="where larger attachments lie, the same for all programs: a folder or s3://bucket/prefix?endpoint=..."
        "; default: in the data folder",
    )
    prefix: str = Field("tickets", pattern=knobs.PREFIX_PATTERN, description="prefix of all exchanges and queues")
    delay_unit: Duration = Field(1.0, ge=0.001, le=60, description="shortest delay of the retry ladder, duration")
    queue_settle: Duration = Field(3.0, description="wait after declaring a new queue before it is trusted, duration")
    event_loop: Wanted = Field(
        "auto", description="auto: uvloop (the extra `fast`) where it is installed, else asyncio's own"
    )
    handler: str = Field("", validate_default=True, description="package.module:function to run for each ticket")
    lane: Lane = Field(Lane.WORK, description="work or suspects (the isolation lane)")
    workers: int | None = Field(
        None, ge=0, description="worker processes, 0 takes nothing; default: one per core, in the isolation lane one"
    )
    isolation: Isolation = Field(
        Isolation.PROCESS, description="process or inline (async handlers that need no isolation)"
    )
    fence: bool = Field(default=True, description="on or off: license each start in the store")
    beat: Duration = Field(5.0, gt=0, description="time between this node's signs of life in the store, duration")
    fence_patience: Duration = Field(
        60.0, description="wait for a store that gives no answer before an item is given back, duration"
    )
    fence_retention: Duration = Field(
        2592000.0, description="how long the fence remembers a ticket that has ended; 0 for ever, duration"
    )
    max_attempts: int = Field(3, ge=1, description="charged starts of an item")
    max_crashes: int = Field(3, ge=1, description="runs of an item that may end with a dead worker")
    max_interruptions: int = Field(20, ge=0, description="uncharged returns of an item")
    max_wait: Duration = Field(86400.0, gt=0, description="wait of an item for a dependency that is down, duration")
    max_spend_tokens: int = Field(0, ge=0, le=MAX_SPENT, description="tokens that an item may cost; 0: no limit")
    max_spend_usd: float = Field(0.0, ge=0, le=MAX_SPENT, description="US dollars that an item may cost; 0: no limit")
    convict_in_isolation: bool = Field(
        default=False, description="on or off: an item's second death, in isolation, is enough"
    )
    backoff_base: Duration = Field(30.0, description="first backoff, doubled with each attempt, duration")
    backoff_cap: Duration = Field(3600.0, description="longest backoff, duration")
    breaker_items: int = Field(3, ge=1, description="different items that open a dependency's breaker")
    breaker_within: Duration = Field(60.0, gt=0, description="time within which they must say so, duration")
    breaker_pause: Duration = Field(
        30.0,
        gt=0,
        description="first pause of an open breaker before its probe, or as little as a third of it, duration",
    )
    breaker_pause_cap: Duration = Field(300.0, gt=0, description="longest pause between probes, duration")
    run_deadline: Duration = Field(300.0, gt=0, description="wall clock of one run, duration")
    heartbeat: Duration = Field(
        0.0, ge=0, description="how long a run may say nothing before it is killed, duration; 0: as long as it likes"
    )
    memory_limit: Size = Field(512 << 20, gt=0, description="current memory of one worker, size")
    recycle_runs: int = Field(500, ge=0, description="runs after which a worker is replaced, ±10 %; 0: never")
    recycle_rss: Size = Field(
        256 << 20, description="private memory between runs over which a worker is replaced, ±10 %; 0: never, size"
    )
    suspect_cpu: Duration = Field(
        0.0, ge=0, description="processor time of one run in the isolation lane, duration; 0: as its run deadline"
    )
    suspect_files: int = Field(
        1024, ge=0, description="open files of a worker in the isolation lane; 0: as many as the system lets it"
    )
    suspect_processes: int = Field(
        64, ge=0, description="the same: processes and threads beyond those that its user has already"
    )
    leak_hunt: int = Field(
        0, ge=0, description="runs between two looks at where one worker's memory grows, at a price; 0: no hunt"
    )
    drain_grace: Duration = Field(30.0, description="time for running items to finish on SIGTERM, duration")
    lost_grace: Duration = Field(5.0, description="time for a run to stop after its connection was lost, duration")
    reclaim_margin: Duration = Field(
        10.0, gt=0, description="what an item of a vanished holder waits beyond the lost grace, at least, duration"
    )
    ack_timeout: Duration = Field(1800.0, gt=0, description="the broker's consumer_timeout, duration")
    outage_window: Duration = Field(
        60.0, description="redeliveries this long after a lost connection is back are its doing, duration"
    )
    confirm_deadline: Duration = Field(
        60.0, gt=0, description="wait for a confirm before the connection is started over, duration"
    )
    storm: OnStorm = Field(
        OnStorm.WAIT, description="when the handler's build kills its workers: wait, exit (with code 5), or off"
    )
    storm_items: int = Field(5, ge=1, description="different items that must have died on their first run")
    storm_share: float = Field(0.5, gt=0, le=1, description="their share of the first runs that are looked at")
    storm_window: int = Field(20, ge=1, le=10_000, description="how many first runs are looked at, at most")
    storm_span: Duration = Field(600.0, gt=0, le=86400, description="how far back first runs are looked at, duration")
    storm_probe: Path | None = Field(
        None, description="file with a ticket that is known to be good, run to see whether a storm is over"
    )
    storm_probe_every: Duration = Field(30.0, gt=0, description="time between two runs of that ticket, duration")
    watchdog: Duration = Field(
        30.0, description="silence while messages wait, after which the connection is started over; 0: never, duration"
    )
    node: str = Field("127.0.0.1:0", description="address of health, readiness and metrics; port 0 picks a free one")
    node_name: str = Field("", description="name of this node in histories; default: host name and process id")
    report_every: Duration = Field(
        30.0, ge=1, le=3600, description="time between two words of a node about itself, for the desk, duration"
    )
    log: str = Field("console", pattern="^(console|json)$", description="console or json")
    log_runs: bool = Field(
        default=False,
        description="on: a line in the log also for each ordinary start and success, which are else summed up"
        " once a minute",
    )
    max_body_bytes: Size = Field(524288, description="preflight of items that came past the door: body, size")
    max_tokens: int = Field(128000, ge=1, description="the same: tokens")
    max_attachments: int = Field(10, ge=0, description="the same: attachments")
    encoding: str = Field("o200k_base", description="vocabulary that tokens are counted with")
    rules: Table = Field(
        default_factory=dict,
        description="modes of the rules of admission, [rules] in the file: off, observe or enforce",
    )
    kinds: Table = Field(default_factory=dict, description='policies by kind, [kinds."support.ticket"] in the file')

    @field_validator("handler")
    @classmethod
    def _is_named(cls, value: str) -> str:
        module, _, function = value.partition(":")
        if not module or not function:
            raise ValueError("name the handler: --handler package.module:function")
        return value

    @field_validator("broker_url")
    @classmethod
    def _is_reachable(cls, value: str) -> str:
        for url in filter(None, map(str.strip, value.split(","))):
            parts = urlsplit(url)
            try:
                port = parts.port or 0
            except ValueError:
                port = -1
            if parts.scheme not in {"amqp", "amqps"} or not parts.hostname or port < 0:
                raise ValueError("write amqp://user:password@host:port/vhost, several separated by commas")
        return value

    @field_validator("attachments")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if (wrong := problem(value)) is not None:
            raise ValueError(wrong)
        return value

    @field_validator("node")
    @classmethod
    def _is_address(cls, value: str) -> str:
        host, _, port = value.rpartition(":")
        if not host or not port.isdecimal() or int(port) > _MAX_PORT:
            raise ValueError("write host:port, for instance 127.0.0.1:0")
        return value

    @property
    def broker_urls(self) -> list[str]:
        """The brokers to try, in order."""
        return [url.strip() for url in self.broker_url.split(",") if url.strip()]

    @property
    def store(self) -> str:
        """The store's URL."""
        return self.store_url or f"sqlite+aiosqlite:///{(self.data / 'station.db').resolve()}"

    @property
    def depot(self) -> str:
        """Where attachments lie that do not travel: an absolute path, or a URL."""
        return place_of(self.attachments, self.data)

    @property
    def topology(self) -> Topology:
        """All queue names."""
        return Topology(prefix=self.prefix, delay_unit=self.delay_unit)

    @property
    def name(self) -> str:
        """This node's name."""
        return self.node_name or f"{socket.gethostname()}:{os.getpid()}"

    @property
    def slots(self) -> int:
        """Runs at once; 0 where the node is to take nothing."""
        if self.workers is not None:
            return self.workers
        return 1 if self.lane is Lane.SUSPECTS else os.cpu_count() or 1

    @property
    def run_room(self) -> float:
        """Seconds that the broker's patience leaves for what a delivery waits here and runs."""
        return self.ack_timeout - self.lost_grace - _SETTLE_SECONDS

    @property
    def hard_limits(self) -> HardLimits | None:
        """What the kernel holds each run to, in the isolation lane."""
        if self.lane is not Lane.SUSPECTS:
            return None
        return HardLimits(cpu_seconds=self.suspect_cpu, open_files=self.suspect_files, processes=self.suspect_processes)

    @property
    def storm_rule(self) -> Rule:
        """When the handler's build is to blame."""
        return Rule(window=self.storm_window, span=self.storm_span, items=self.storm_items, share=self.storm_share)

    @property
    def probe(self) -> Probe | None:
        """The ticket that is known to be good; raises ValueError when its file is of no use."""
        return None if self.storm_probe is None else probe.read(self.storm_probe)

    @property
    def policies(self) -> Policies:
        """The policy of every kind."""
        return policy.read(
            Policy(
                max_attempts=self.max_attempts,
                max_crashes=self.max_crashes,
                max_interruptions=self.max_interruptions,
                max_wait=self.max_wait,
                max_spend=Spent(tokens=self.max_spend_tokens, usd=self.max_spend_usd),
                convict_in_isolation=self.convict_in_isolation,
                backoff_base=self.backoff_base,
                backoff_cap=self.backoff_cap,
                run_deadline=self.run_deadline,
                heartbeat=self.heartbeat,
                memory_limit=self.memory_limit,
            ),
            self.kinds,
        )


def load(overrides: Mapping[str, Any]) -> Settings:
    """Return the settings of file, environment and command line (the later wins).

    Raises SettingsInvalid with every mistake.
    """
    mistakes: list[str] = []
    table: dict[str, Any] = {}
    try:
        table = knobs.read_table(os.environ)
    except ValueError as error:
        mistakes.append(str(error))
    mistakes += knobs.unknown(os.environ, table)
    environment = EnvSettingsSource(Settings)
    sources = (InitSettingsSource(Settings, dict(overrides)), environment, InitSettingsSource(Settings, table))
    try:
        settings = Settings(_build_sources=(sources, {}))
    except ValidationError as error:
        mistakes += [f"{knobs.PREFIX}{str(item['loc'][0]).upper()}: {item['msg']}" for item in error.errors()]
        kinds = {**table, **environment()}.get("kinds")
        mistakes += policy.mistakes_in(kinds) if isinstance(kinds, dict) else []
        raise SettingsInvalid("\n".join(mistakes)) from error
    mistakes += contradictions(settings)
    if mistakes:
        raise SettingsInvalid("\n".join(mistakes))
    return settings


def describe() -> str:
    """Return one line for each setting: name, default, meaning."""
    lines = []
    for name, item in Settings.model_fields.items():
        default = "" if name == "kinds" or item.default is None else f" (default: {item.default})"
        lines.append(f"  {knobs.PREFIX}{name.upper():20} {item.description}{default}")
    return "\n".join(lines)


def contradictions(settings: Settings) -> list[str]:
    """Return a sentence for each mistake that no setting has by itself."""
    found: list[str] = []
    try:
        _ = settings.policies
    except ValueError as error:
        found += str(error).splitlines()
    else:
        longest = settings.policies.longest_run
        if longest > settings.run_room:
            found.append(
                f"a run deadline of {longest:g} s is too near to the broker's acknowledgement timeout of"
                f" {settings.ack_timeout:g} s: shorten it, or raise consumer_timeout there and LAZARETTO_ACK_TIMEOUT"
            )
    try:
        rules.read(settings.rules)
    except ValueError as error:
        found += [f"rules: {line}" for line in str(error).splitlines()]
    try:
        _ = settings.probe
    except ValueError as error:
        found.append(f"LAZARETTO_STORM_PROBE={error}")
    if settings.storm_items > settings.storm_window:
        found.append(
            f"{settings.storm_items} different items cannot have died in {settings.storm_window} runs:"
            " raise LAZARETTO_STORM_WINDOW, or lower LAZARETTO_STORM_ITEMS"
        )
    if not settings.broker_urls:
        found.append("LAZARETTO_BROKER_URL names no broker")
    if settings.lane is Lane.SUSPECTS and settings.isolation is Isolation.INLINE:
        found.append("the suspects lane needs worker processes: leave out --isolation inline")
    if settings.lane is Lane.SUSPECTS and settings.slots > 1:
        found.append("the suspects lane takes one item at a time: leave out --workers, or start more nodes")
    if settings.leak_hunt and (settings.lane is Lane.SUSPECTS or settings.isolation is Isolation.INLINE):
        found.append("a leak hunt needs a worker that runs many items: worker processes, in the work lane")
    return found
