"""Figures of several processes as those of one door: Prometheus' client in its multi-process form, kept in files.

Owns the files. They are named after a process' place, not its id: who takes the place of a dead process counts on from
where that one was killed, so that counters never fall and files never pile up. Gauges of the dead go with them.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest, values
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.process_collector import ProcessCollector

_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""Where Prometheus' client looks for the folder, each time it opens a file."""
_BYTES: Final = 1 << 20
"""Of a file, set aside beforehand: on a full disk it is this that fails, and not a write to memory that shows it."""
_SORTS: Final = ("counter", "histogram", "gauge_livesum", "gauge_livemax", "gauge_livemin", "gauge_max")


class SharedFigures:
    """The files of one door, in a folder that nobody else uses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self) -> None:
        """Make an empty folder; raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._folder.glob("*.db"):
            left.unlink()
        os.environ[_FOLDER] = str(self._folder)

    def prepare(self, place: int | str) -> None:
        """Set room aside for a process, and drop the gauges of the one before it; raises OSError."""
        mark_process_dead(place, str(self._folder))  # type: ignore[no-untyped-call]
        for sort in _SORTS:
            with (self._folder / f"{sort}_{place}.db").open("ab") as file:
                os.posix_fallocate(file.fileno(), 0, _BYTES)

    def forget(self, place: int) -> None:
        """Drop the gauges of a process that is dead."""
        mark_process_dead(place, str(self._folder))  # type: ignore[no-untyped-call]

    def join(self, place: int | str) -> None:
        """Have every figure that is made in this process from now on kept in the files of a place."""
        values.ValueClass = values.MultiProcessValue(process_identifier=lambda: place)  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """Remove the folder."""
        for left in self._folder.glob("*.db"):
            left.unlink(missing_ok=True)
        self._folder.rmdir()

    def exposition(self, pids: Iterable[int]) -> bytes:
        """Return the figures of all processes together, in Prometheus' text format."""
        registry = CollectorRegistry()
        MultiProcessCollector(registry, str(self._folder))  # type: ignore[no-untyped-call]
        registry.register(_Processes(pids))
        return generate_latest(registry)


class _Processes:
    """What processes use, summed up; `start` is that of the oldest."""

    def __init__(self, pids: Iterable[int]) -> None:
        self._pids = tuple(pids)

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for pid in self._pids:
            for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
                found.setdefault(metric.name, Metric(metric.name, metric.documentation, metric.type))
                found[metric.name].samples += metric.samples
        for name, metric in found.items():
            together = min if name.endswith("start_time_seconds") else sum
            sample = metric.samples[0]
            metric.samples = [sample._replace(value=together(each.value for each in metric.samples))]
            yield metric
