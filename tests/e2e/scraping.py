"""/metrics of two programs, read with Prometheus' own parser."""

from __future__ import annotations

import ssl
import urllib.request
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

#: A series: its labels, without the bound of a bucket.
Labels = frozenset[tuple[str, str]]


@dataclass
class ScrapedFamily:
    """A family that has samples: what a dashboard can ask for."""

    kind: str
    labels: set[str] = field(default_factory=set)
    bounds: tuple[str, ...] = ()
    #: The value of each series; of a histogram, how often it was observed.
    values: dict[Labels, float] = field(default_factory=dict)

    def label_values(self, label: str) -> set[str]:
        return {value for labels in self.values for name, value in labels if name == label}


def scrape(url: str, token: str = "") -> dict[str, ScrapedFamily]:
    """The families with samples, by name; certificates are not verified."""
    context = ssl._create_unverified_context() if url.startswith("https") else None
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(request, context=context, timeout=10) as answer:
        return read_families(answer.read().decode())


def read_families(text: str) -> dict[str, ScrapedFamily]:
    """The families with samples of one scrape, by name."""
    families = {}
    for family in text_string_to_metric_families(text):
        # The parser takes _total off a counter's name.
        is_total = any(sample.name.endswith("_total") for sample in family.samples)
        name = f"{family.name}_total" if is_total else family.name
        shown = ScrapedFamily(family.type)
        bounds: dict[str, None] = {}
        for sample in family.samples:
            labels = dict(sample.labels)
            if sample.name.endswith("_bucket"):
                bounds[labels.pop("le")] = None
            shown.labels |= set(labels)
            if family.type != "histogram" or sample.name.endswith("_count"):
                shown.values[frozenset(labels.items())] = sample.value
        shown.bounds = tuple(bounds)
        if family.samples:
            families[name] = shown
    return families
