"""What a private node is: its paths, its environment, its configuration, as values computed from a folder and a URL.

Pure: nothing here starts, reads or writes anything; `foreground` does.
"""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

DEFAULT_URL: Final = "amqp://guest:guest@127.0.0.1:5673/"
DEFAULT_DATA: Final = ".lazaretto"

SCRIPTS: Final = Path("/usr/lib/rabbitmq/bin")
"""The plain scripts of Debian's package. Those in /usr/sbin insist on the user `rabbitmq` or root."""

NODE_NAME: Final = "lazaretto@localhost"
"""Constant, because RabbitMQ files its data under it. Nodes of one machine are kept apart by their epmd."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9!&()*+,./:;=?@_~-]+")
"""What rabbitmq.conf takes literally: there is no quoting that all versions know, and `#` begins a comment."""


class NodeSettingsError(ValueError):
    """The settings describe no private node that could be run; the text says why, for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One private node: everything it needs lies under `folder`, and it listens at `host`:`port` only."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 5673
    user: str = "guest"
    password: str = "guest"
    vhost: str = "/"
    scripts: Path = SCRIPTS

    @classmethod
    def from_settings(cls, environment: Mapping[str, str], table: Mapping[str, object]) -> "Node":
        """Read the node that `LAZARETTO_BROKER_URL` and `LAZARETTO_DATA` (or the file's keys) describe.

        Raises NodeSettingsError when the URL is not one plain AMQP address on loopback.
        """
        url = environment.get("LAZARETTO_BROKER_URL") or str(table.get("broker_url") or DEFAULT_URL)
        data = environment.get("LAZARETTO_DATA") or str(table.get("data") or DEFAULT_DATA)
        return cls.at(url, Path(data))

    @classmethod
    def at(cls, url: str, data: Path) -> "Node":
        """Describe the node that listens where `url` says and keeps its files under `data`/broker."""
        if "," in url:
            raise NodeSettingsError("LAZARETTO_BROKER_URL names several brokers; a private node is a single one")
        parts = urlsplit(url)
        if parts.scheme != "amqp":
            raise NodeSettingsError(f"a private node speaks plain amqp:// on loopback, not {parts.scheme or 'that'}://")
        host = {"localhost": "127.0.0.1", "": "127.0.0.1"}.get(parts.hostname or "", parts.hostname or "")
        try:
            loopback = ipaddress.IPv4Address(host).is_loopback
            port = parts.port or 5672
        except ValueError as error:
            raise NodeSettingsError(f"LAZARETTO_BROKER_URL: {error}; a private node needs 127.0.0.1:PORT") from error
        if not loopback:
            raise NodeSettingsError(f"LAZARETTO_BROKER_URL names {host}; a private node listens on loopback only")
        return cls(
            folder=data.absolute() / "broker",
            host=host,
            port=port,
            user=_plain("the user", parts.username or "guest"),
            password=_plain("the password", parts.password or "guest"),
            vhost=_plain("the virtual host", parts.path.removeprefix("/") or "/"),
        )

    @property
    def url(self) -> str:
        """The AMQP URL of this node, with credentials."""
        vhost = "" if self.vhost == "/" else quote(self.vhost, safe="")
        return f"amqp://{quote(self.user, safe='')}:{quote(self.password, safe='')}@{self.address}/{vhost}"

    @property
    def address(self) -> str:
        """Host and port, without credentials: fit for messages and logs."""
        return f"{self.host}:{self.port}"

    @property
    def home(self) -> Path:
        """HOME of the node and its tools: where Erlang looks for the cookie."""
        return self.folder / "home"

    @property
    def cookie(self) -> Path:
        """The shared secret of the node and its own tools; readable by the owner only."""
        return self.home / ".erlang.cookie"

    @property
    def log(self) -> Path:
        """The folder of logs: the node's own, what it printed, and crash dumps."""
        return self.folder / "log"

    @property
    def lock(self) -> Path:
        """Locked by the node's processes as long as any of them lives."""
        return self.folder / "lock"

    @property
    def state(self) -> Path:
        """Ports and process ids of the running node, as JSON."""
        return self.folder / "node.json"

    def files(self) -> dict[Path, str]:
        """Return the configuration files by path. They are written at each start: nothing is edited by hand."""
        return {
            self.folder / "rabbitmq.conf": self.configuration(),
            self.folder / "rabbitmq-env.conf": "",
            self.folder / "advanced.config": "[].\n",
            self.folder / "enabled_plugins": "[].\n",
        }

    def configuration(self) -> str:
        """Return rabbitmq.conf. User and vhost take effect at the first start in a folder, as always with RabbitMQ."""
        return "\n".join(
            [
                f"listeners.tcp.default = {self.host}:{self.port}",
                "num_acceptors.tcp = 4",
                f"default_user = {self.user}",
                f"default_pass = {self.password}",
                f"default_vhost = {self.vhost}",
                "vm_memory_high_watermark.relative = 0.4",
                "disk_free_limit.absolute = 50MB",
                # The write-ahead log is replayed at each start; the default of 512 MiB makes that long.
                "raft.wal_max_size_bytes = 67108864",
                "log.console = false",
                "log.file = broker.log",
                "log.file.level = warning",
                # A program is told itself why its channel was closed; asking for a queue that is not there is a reason.
                "log.channel.level = critical",
                "",
            ]
        )

    def environment(self, *, epmd_port: int, dist_port: int) -> dict[str, str]:
        """Return the whole environment of the node: clean, so that no RABBITMQ_* of the caller leaks in."""
        return {
            **self.tools_environment(epmd_port=epmd_port),
            # The script then becomes the Erlang VM instead of waiting for it: one process less to watch and to kill,
            # and the death signal that the parent asked for survives (it is kept over exec, not over fork).
            "RUNNING_UNDER_SYSTEMD": "true",
            "ERL_CRASH_DUMP": str(self.log / "erl_crash.dump"),
            "ERL_CRASH_DUMP_SECONDS": "5",
            "RABBITMQ_NODENAME": NODE_NAME,
            "RABBITMQ_DIST_PORT": str(dist_port),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self.folder / "advanced.config"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "enabled_plugins"),
            "RABBITMQ_GENERATED_CONFIG_DIR": str(self.folder / "generated"),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_PLUGINS_EXPAND_DIR": str(self.folder / "plugins"),
            "RABBITMQ_LOG_BASE": str(self.log),
            "RABBITMQ_PID_FILE": str(self.folder / "pid"),
            # A desk or a CI machine has other things to do: two schedulers, not bound to a core, no busy waiting.
            "RABBITMQ_SCHEDULER_BIND_TYPE": "u",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "+S 2:2 -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}"
            ),
        }

    def tools_environment(self, *, epmd_port: int) -> dict[str, str]:
        """Return the environment in which `rabbitmqctl` reaches this node and no other."""
        return {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.home),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_CONF_ENV_FILE": str(self.folder / "rabbitmq-env.conf"),
            # Without the first a tool called while the node is down would leave an epmd behind.
            "RABBITMQ_CTL_ERL_ARGS": "-start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
        }


def _plain(what: str, quoted: str) -> str:
    value = unquote(quoted)
    if _PLAIN.fullmatch(value) is None:
        raise NodeSettingsError(
            f"LAZARETTO_BROKER_URL: {what} of a private node has no other characters than letters, digits and"
            " ! & ( ) * + , . / : ; = ? @ _ ~ -"
        )
    return value
