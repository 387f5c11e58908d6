"""The base of the API's actions: the request's parameters, the region, and look-ups of named resources."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from moto.ec2.responses import EC2Response

from .backend import RegionVolume
from .filters import Filter
from .moto_loading import REGION
from .refusal import Refusal, required, well_formed_id
from .region import Region

log = logging.getLogger(__name__)


class RegionActions(EC2Response):  # type: ignore[misc]  # moto is not typed here
    """One request to EC2, which moto parses and answers. Actions defined in subclasses replace moto's own."""

    params: dict[str, Any]
    # EC2 answers before the work is done, this region afterwards: show EC2's states. moto has no zone groups.
    RESPONSE_KEY_PATH_TO_TRANSFORMER: ClassVar[dict[str, Callable[[Any], Any]]] = {
        **EC2Response.RESPONSE_KEY_PATH_TO_TRANSFORMER,
        "CreateVolume.Volume.State": lambda _: "creating",
        "AttachVolume.VolumeAttachment.State": lambda _: "attaching",
        "DetachVolume.VolumeAttachment.State": lambda _: "detaching",
        "CreateSnapshot.Snapshot.State": lambda _: "pending",
        "ModifyVolumeResult.VolumeModification.ModificationState": lambda _: "modifying",
        "ModifyVolumeResult.VolumeModification.Progress": lambda _: 0,
        "AvailabilityZone.GroupName": lambda _: f"{REGION}-zg-1",
        "AvailabilityZone.OptInStatus": lambda _: "opt-in-not-required",
        "NetworkBorderGroup": lambda _: REGION,
    }

    def __init__(self, region: Region) -> None:
        super().__init__()
        self.home = region  # moto keeps the name of the region in `region`
        self.params = {}
        self.action = ""
        self.filters: Sequence[Filter] = ()

    @property
    def ec2_backend(self) -> Any:
        return self.home.backend

    def instance(self, instance_id: str | None) -> Any:
        """Return the instance of this id. Refuses the request if there is none."""
        return self.found_instances([instance_id] if instance_id else None)[0]

    def found_instances(self, ids: list[str] | None) -> list[Any]:
        """Return the instances of these ids. Refuses the request if any is missing."""
        requested = dict.fromkeys(well_formed_id("i", one) for one in required(ids, "InstanceId"))
        found: list[Any] = self.home.backend.get_multi_instances_by_id(list(requested))
        return found

    def volume(self, volume_id: str | None) -> RegionVolume:
        """Return the volume of this id. Refuses the request if there is none."""
        volume_id = well_formed_id("vol", required(volume_id, "volumeId"))
        volume: RegionVolume = self.home.backend.get_volume(volume_id)
        return volume

    @contextlib.contextmanager
    def on_plane(
        self, failure: str, undo: Callable[[], object], code: str = "InternalError"
    ) -> Iterator[None]:
        """Release the region's lock for work on the plane. If it fails, call ``undo`` and refuse the request.

        The refusal's message is ``failure``, followed by the plane's message.
        """
        try:
            with self.home.aside():
                yield
        except Exception as error:
            log.exception("%s", failure)
            undo()
            raise Refusal(code, f"{failure}: {error}") from error
