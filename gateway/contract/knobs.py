"""The names of all settings, and how their values are written.

Owns the spelling: each program reads only its own settings, but an unknown name must be an error in all of them.
Holds no defaults: those stand where a setting is used.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

PREFIX: Final = "LAZARETTO_"

NAMES: Final = frozenset(
    {
        "accept_detected",
        "ack_timeout",
        "alert_rate",
        "alert_span",
        "alert_urls",
        "alertmanager_expiry",
        "alertmanager_url",
        "attachments",
        "attachments_grace",
        "attachments_inline",
        "attachments_retention",
        "backoff_base",
        "backoff_cap",
        "beat",
        "body_deadline",
        "breaker_items",
        "breaker_pause",
        "breaker_pause_cap",
        "breaker_within",
        "broker_url",
        "callback_patience",
        "callback_private",
        "config",
        "confirm_deadline",
        "convict_in_isolation",
        "data",
        "delay_unit",
        "desk",
        "desk_groups_header",
        "desk_keys",
        "desk_proxies",
        "desk_reveal",
        "desk_session",
        "desk_url",
        "desk_user",
        "desk_user_header",
        "door",
        "door_workers",
        "drain_grace",
        "encoding",
        "escalation_mail",
        "escalation_private",
        "escalation_secret",
        "escalation_url",
        "event_loop",
        "fence",
        "fence_patience",
        "fence_retention",
        "handler",
        "idempotency_expiry",
        "heartbeat",
        "isolation",
        "item_retention",
        "keys",
        "kinds",
        "lane",
        "leak_hunt",
        "log",
        "log_runs",
        "lost_grace",
        "mail_from",
        "max_attachments",
        "max_attempts",
        "max_body_bytes",
        "max_connections",
        "max_crashes",
        "max_inflight",
        "max_inflight_bytes",
        "max_interruptions",
        "max_queued",
        "max_spend_tokens",
        "max_spend_usd",
        "max_tokens",
        "max_wait",
        "max_waiting",
        "memory_limit",
        "node",
        "node_name",
        "operation_lease",
        "outage_window",
        "owner",
        "prefix",
        "publish_deadline",
        "queue_settle",
        "reclaim_margin",
        "recycle_rss",
        "recycle_runs",
        "reconcile_every",
        "reconcile_patience",
        "refusal_factor",
        "refusal_retention",
        "refusal_surge",
        "refusal_window",
        "refused_sample",
        "replay_limit",
        "report_every",
        "restore_window",
        "review_within",
        "rules",
        "run_deadline",
        "smtp_url",
        "status_look",
        "status_wait",
        "store_url",
        "storm",
        "storm_items",
        "storm_probe",
        "storm_probe_every",
        "storm_share",
        "storm_span",
        "storm_window",
        "suspect_cpu",
        "suspect_files",
        "suspect_processes",
        "ticket_retention",
        "tls_certificate",
        "tls_key",
        "trust_network",
        "trusted_proxies",
        "vocabulary",
        "vocabulary_sha256",
        "watchdog",
        "workers",
    }
)
"""Every setting's name as in `lazaretto.toml`; the environment has it in capitals, after `LAZARETTO_`."""

PREFIX_PATTERN: Final = r"^[a-z][a-z0-9_-]{0,31}(\.[a-z0-9_-]{1,32}){0,3}$"
"""What may stand before the names of exchanges and queues."""

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KiB|MiB|GiB|kB|KB|MB|GB)?")
_BYTES: Final = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    None: 1,
}


def duration(value: Any) -> float:
    """Read a duration in seconds: a number, or text such as `500ms`, `30s`, `5m`, `1h`; raises ValueError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0:
        return float(value)
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a duration such as 500ms, 30s, 5m or 1h")
    return float(match[1]) * _SECONDS[match[2]]


def size(value: Any) -> int:
    """Read a size in bytes: a whole number, or text such as `512KiB` or `4MB`; raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("write a size such as 524288, 512KiB or 4MB")
    return int(float(match[1]) * _BYTES[match[2]])


def unknown(environment: Iterable[str], table: Iterable[str]) -> list[str]:
    """Return a sentence for each `LAZARETTO_*` variable, in whatever case, and each toml key that is no setting.

    pydantic-settings reads variables in any case: of two spellings of one name nobody could say which is obeyed.
    """
    known = {PREFIX + name.upper() for name in NAMES}
    named = {name for name in environment if name.upper().startswith(PREFIX)}
    return [
        *(f"{name} is no setting (see --help)" for name in sorted(named - known)),
        *(f"{name} in the configuration file is no setting (see --help)" for name in sorted(set(table) - NAMES)),
    ]


def read_table(environment: Mapping[str, str]) -> dict[str, Any]:
    """Read the configuration file: where `LAZARETTO_CONFIG` points, else `lazaretto.toml` here if it exists.

    Raises ValueError naming the file when it cannot be read or is no TOML.
    """
    named = environment.get(f"{PREFIX}CONFIG")
    path = Path(named or "lazaretto.toml")
    if named is None and not path.is_file():
        return {}
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"configuration file {path}: {error}") from error
