"""The node's counts as Prometheus text, made when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from foretold.models.place import MODEL_STATES
from foretold.observe.counters import BUCKETS_MS
from foretold.outcome import How
from foretold.tiers.breaker import Standing

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


_OF_TIERS = {
    "lookups": "Times a tier was asked: hits, misses, errors and skipped together.",
    "hits": "Times a tier had the record.",
    "misses": "Times a tier did not have the record.",
    "errors": "Times a tier failed, was too slow, or held what is no whole record.",
    "skipped": "Times a tier was not asked because reading it was left out.",
    "writes": "Records written to a tier.",
    "write_errors": "Records a tier failed to write.",
    "dropped": "Records not written because too many waited, or writing was left out.",
    "over_share": "Records not written because their tenant had written its share of a day.",
    "deletes": "Records deleted because the newer one that replaced them was not written.",
    "delete_errors": "Times such a deletion failed; it is tried again.",
    "deletes_dropped": "Such deletions given up because too many waited.",
    "opened": "Times reading or writing a tier began to be left out because it failed.",
    "probes": "Times a tier that was left out was tried again.",
}


_OF_MODELS = {
    "loads": "Times a model took its room in memory.",
    "unloads": "Times a model gave its room back.",
    "evictions": "Times it did because another needed the room.",
    "failures": "Loads that failed and processes that died.",
    "restarts": "Processes of a model that came after one that failed.",
    "promotions": "Times a model got another revision while it was asked.",
}
_NOW_OF_MODELS = {
    "answering": "Answers that a model is making.",
    "waiting": "Callers who wait for a model.",
    "memory_bytes": "What a model is predicted to take while it is loaded.",
}


def metrics(told: Mapping[str, Any]) -> bytes:
    """Of the counts that `stats` told."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Counts(told))
    return generate_latest(registry)


class _Counts(Collector):
    def __init__(self, told: Mapping[str, Any]):
        self._told = told

    def collect(self) -> Iterator[Metric]:
        told = self._told
        yield CounterMetricFamily("foretold_received", "Queries received.", value=told["received"])
        queries = CounterMetricFamily("foretold_queries", "Queries ended, by route and how.", labels=("route", "how"))
        for route, counted in told["routes"].items():
            for how, count in counted.items():
                queries.add_metric((route, how), count)
        yield queries
        ended = CounterMetricFamily("foretold_ended", "Answers ended, by the way they did.", labels=("ended",))
        for name, count in told["ended"].items():
            ended.add_metric((name,), count)
        yield ended
        yield from self._times()
        yield CounterMetricFamily("foretold_stored", "Answers kept.", value=told["stored"])
        yield CounterMetricFamily(
            "foretold_refreshed", "Stale answers replaced behind their callers' backs.", value=told["refreshed"]
        )
        yield CounterMetricFamily(
            "foretold_refresh_failed", "Tries at that which brought nothing to keep.", value=told["refresh_failed"]
        )
        yield CounterMetricFamily(
            "foretold_saved_seconds", "Origin time that hits did not take.", value=told["saved_ms"] / 1000
        )
        would_be = CounterMetricFamily(
            "foretold_would_be", "Queries that a node in observe mode would have answered so.", labels=("how",)
        )
        for how, count in told["would_be"].items():
            would_be.add_metric((how,), count)
        yield would_be
        yield CounterMetricFamily(
            "foretold_would_save_seconds",
            "Origin time that they took all the same.",
            value=told["would_save_ms"] / 1000,
        )
        yield CounterMetricFamily("foretold_corrupt", "Blobs that were no whole record.", value=told["corrupt"])
        yield GaugeMetricFamily("foretold_flights", "Origin runs in the air.", value=told["flights"])
        yield GaugeMetricFamily("foretold_workers", "Processes that answer.", value=len(told["workers"]) or 1)
        yield CounterMetricFamily(
            "foretold_worker_restarts", "Processes that died and were started again.", value=told["restarts"]
        )
        for name, says in _OF_TIERS.items():
            family = CounterMetricFamily(f"foretold_tier_{name}", says, labels=("tier",))
            for tier in told["tiers"]:
                family.add_metric((tier["name"],), tier[name])
            yield family
        held = GaugeMetricFamily("foretold_tier_held_bytes", "Bytes held by a tier.", labels=("tier",))
        for tier in told["tiers"]:
            held.add_metric((tier["name"],), tier["held_bytes"])
        yield held
        left_out = GaugeMetricFamily(
            "foretold_tier_left_out", "1 while reading or writing a tier is left out, else 0.", labels=("tier", "side")
        )
        for tier in told["tiers"]:
            for side in ("reading", "writing"):
                left_out.add_metric((tier["name"], side), tier[side] == Standing.LEFT_OUT)
        yield left_out
        yield from self._models()

    def _models(self) -> Iterator[Metric]:
        """All of one node, whichever process is asked."""
        models = self._told["models"]
        for name, says in _OF_MODELS.items():
            counted = CounterMetricFamily(f"foretold_model_{name}", says, labels=("model",))
            for model in models:
                counted.add_metric((model["name"],), model[name])
            yield counted
        for name, says in _NOW_OF_MODELS.items():
            now = GaugeMetricFamily(f"foretold_model_{name}", says, labels=("model",))
            for model in models:
                now.add_metric((model["name"],), model[name])
            yield now
        states = GaugeMetricFamily(
            "foretold_model_state", "1 for the state that a model is in, 0 for the others.", labels=("model", "state")
        )
        for model in models:
            for state in MODEL_STATES:
                states.add_metric((model["name"], state), state == model["state"])
        yield states

    def _times(self) -> Iterator[Metric]:
        family = HistogramMetricFamily("foretold_query_seconds", "Time to the end of an answer.", labels=("how",))
        for how in How:
            total, buckets = 0, []
            counts = self._told["times"][how.value]
            for bound, count in zip([*(str(b / 1000) for b in BUCKETS_MS), "+Inf"], counts, strict=True):
                total += count
                buckets.append((bound, total))
            family.add_metric((how.value,), buckets, sum_value=self._told["took_ms"][how.value] / 1000)
        yield family
