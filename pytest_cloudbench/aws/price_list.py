"""Prices from the AWS Price List API, each queried once a day and kept in a file.

The products and their attributes are those of the offers AmazonEC2, AmazonVPC and AWSDataTransfer (AWS Price List API,
GetProducts). Their usage types begin with a code of the region, except in us-east-1, so their ends are compared.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from pytest_cloudbench.reports.prices import BadPrices, Prices

from .access import CloudAccess
from .clients import Clients

_CURRENCY = "USD"
_IO2_TIERS = {"VolumeP-IOPS.io2": 0, "VolumeP-IOPS.io2.tier2": 32_000, "VolumeP-IOPS.io2.tier3": 64_000}
"""The tiers of io2 are products of their own, whose bounds only the EBS pricing page states (2026-11)."""
_GP3_FREE = {"iops_free": 3_000, "mib_per_s_free": 125}
"""Included in each gp3 volume: Amazon EBS pricing, 2026-11."""
_KEPT_S = 24 * 3600.0
_REGION_OF_THE_SERVICE = "us-east-1"
"""The service has endpoints in few regions; this one has the prices of all."""


class _Offer(NamedTuple):
    """One price of the list."""

    attributes: Mapping[str, str]
    unit: str
    price: float

    def used_as(self, usage_type: str) -> bool:
        """Return True for the product of this usage type, in any region."""
        found = self.attributes.get("usagetype", "")
        return found == usage_type or found.endswith((f"-{usage_type}", f":{usage_type}"))


class PriceList:
    """The prices of one region; ``access`` is how to reach that region. Thread-safe.

    Prices of an endpoint on this machine are not kept: another region there may have different ones tomorrow.
    """

    def __init__(self, access: CloudAccess, region: str, cache: Path | None = None) -> None:
        # Separate clients, so that evidence does not record the answers: the list is long.
        self._clients = Clients(replace(access, region=_REGION_OF_THE_SERVICE))
        self._region = region
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._cache = cache or (None if access.is_loopback else _cache_directory() / f"{region}.json")

    def prices(self, instance_types: Iterable[str]) -> Prices:
        """Return the prices of the region, including those of these types as far as the list has them.

        Raises CloudError if the list cannot be read.
        """
        with self._lock:
            if not self._known:
                self._known = self._kept() or self._region_prices()
            hours: dict[str, float | None] = self._known["instance_hour"]
            missing = [name for name in dict.fromkeys(instance_types) if name not in hours]
            for name in missing:
                hours[name] = self._instance_hour(name)
            if missing:
                self._keep()
            found = {**self._known, "instance_hour": {k: v for k, v in hours.items() if v is not None}}
            date = str(found.pop("date"))
            return Prices.of(found, f"AWS price list of {self._region}, {date[:10]}")

    def _region_prices(self) -> dict[str, Any]:
        months: dict[str, dict[str, Any]] = {}
        io2: list[list[float]] = []
        for offer in self._offers("AmazonEC2", productFamily="Storage"):
            kind = offer.attributes.get("volumeApiName")
            if kind and offer.unit.lower() in ("gb-mo", "gb-month"):
                months.setdefault(kind, {})["gib"] = offer.price
        for offer in self._offers("AmazonEC2", productFamily="System Operation"):
            if offer.used_as("VolumeP-IOPS.gp3"):
                months.setdefault("gp3", {})["iops"] = offer.price
            elif offer.used_as("VolumeP-IOPS.piops"):
                months.setdefault("io1", {})["iops"] = offer.price
            else:
                io2 += [[above, offer.price] for name, above in _IO2_TIERS.items() if offer.used_as(name)]
        for offer in self._offers("AmazonEC2", productFamily="Provisioned Throughput"):
            if offer.used_as("VolumeP-Throughput.gp3"):
                in_mib = 1024 if offer.unit.lower().startswith("gib") else 1
                months.setdefault("gp3", {})["mib_per_s"] = offer.price / in_mib
        if io2:
            months.setdefault("io2", {})["iops"] = sorted(io2)
        if "gp3" in months:
            months["gp3"].update(_GP3_FREE)
        single = {
            "snapshot_gib_month": self._one(
                "EBS:SnapshotUsage", "AmazonEC2", productFamily="Storage Snapshot"
            ),
            "address_hour": self._one("PublicIPv4:InUseAddress", "AmazonVPC", group="VPCPublicIPv4Address"),
            "zone_traffic_gb": self._one(
                "DataTransfer-Regional-Bytes", "AWSDataTransfer", transferType="IntraRegion"
            ),
        }
        return {
            "currency": _CURRENCY,
            "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "instance_hour": {},
            "volume_month": {kind: prices for kind, prices in months.items() if _is_complete(kind, prices)},
            **{name: price for name, price in single.items() if price is not None},
        }

    def _instance_hour(self, name: str) -> float | None:
        offers = self._offers(
            "AmazonEC2",
            instanceType=name,
            operatingSystem="Linux",
            preInstalledSw="NA",
            tenancy="Shared",
            capacitystatus="Used",
        )
        return next((offer.price for offer in offers if offer.unit == "Hrs"), None)

    def _one(self, usage_type: str, service: str, **filters: str) -> float | None:
        return next(
            (offer.price for offer in self._offers(service, **filters) if offer.used_as(usage_type)), None
        )

    def _offers(self, service: str, **filters: str) -> Iterator[_Offer]:
        """Yield the On-Demand prices above 0 of the region's products."""
        region = "fromRegionCode" if service == "AWSDataTransfer" else "regionCode"
        wanted = {**filters, region: self._region}
        found = self._clients.pages(
            f"read the prices of {service} ({', '.join(filters.values())})",
            "pricing",
            "get_products",
            "PriceList",
            ServiceCode=service,
            Filters=[{"Type": "TERM_MATCH", "Field": name, "Value": value} for name, value in wanted.items()],
        )
        for text in found:
            product: dict[str, Any] = json.loads(text)  # type: ignore[arg-type]  # the list has JSON texts
            attributes = product.get("product", {}).get("attributes", {})
            if attributes.get("locationType", "AWS Region") != "AWS Region":
                continue
            for term in product.get("terms", {}).get("OnDemand", {}).values():
                for dimension in term.get("priceDimensions", {}).values():
                    price = float(dimension.get("pricePerUnit", {}).get(_CURRENCY, 0))
                    if price > 0:
                        yield _Offer(attributes, str(dimension.get("unit", "")), price)

    def _kept(self) -> dict[str, Any] | None:
        """Return the prices that were kept less than a day ago; None if there are none or they cannot be read."""
        if self._cache is None:
            return None
        try:
            found: dict[str, Any] = json.loads(self._cache.read_text("utf-8"))
            age = datetime.now(timezone.utc) - datetime.fromisoformat(found["date"])
            hours = {name: price for name, price in found["instance_hour"].items() if price is not None}
            Prices.of({**{k: v for k, v in found.items() if k != "date"}, "instance_hour": hours}, "kept")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, BadPrices):
            return None
        return found if 0 <= age.total_seconds() < _KEPT_S else None

    def _keep(self) -> None:
        if self._cache is None:
            return
        with suppress(OSError):  # the next session asks again
            self._cache.parent.mkdir(parents=True, exist_ok=True)
            partial = self._cache.with_suffix(f".{os.getpid()}")
            partial.write_text(json.dumps(self._known, indent=1), "utf-8")
            partial.replace(self._cache)


def _is_complete(kind: str, prices: Mapping[str, Any]) -> bool:
    """Return True if everything that a volume of this type is billed for has a price."""
    needed = {"io1": ("iops",), "io2": ("iops",), "gp3": ("iops", "mib_per_s")}.get(kind, ())
    return all(part in prices for part in ("gib", *needed))


def _cache_directory() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "cloudbench" / "prices"
