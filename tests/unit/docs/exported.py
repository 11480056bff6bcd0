"""The metrics that the programs export, by name, as their own code declares them.

Owns the reading of these declarations for tests about pages, rules and the dashboard.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.parser import text_string_to_metric_families

from consumer import metrics as node
from gateway.metrics import Metrics
from gateway.station.figures import Figures, render


def families() -> dict[str, str]:
    """Return the type of every metric of ours, by the name that it is asked for under."""
    door = CollectorRegistry()
    for name in Metrics.__slots__:
        metric = getattr(Metrics(), name)
        if isinstance(metric, Counter | Gauge | Histogram):
            door.register(metric)
    nothing = Figures(by_state={}, loads=(), acts=(), lag_seconds=0.0, spooled=0)
    found = [
        *door.collect(),
        *node.REGISTRY.collect(),
        *text_string_to_metric_families(render(nothing).decode()),
    ]
    return {family.name + ("_total" if family.type == "counter" else ""): family.type for family in found}
