"""A snapshot of a volume as a test sees it; it is removed when the test ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cloudbench.limits.quantities import Size

if TYPE_CHECKING:
    from pytest_cloudbench.resources.facts import CreatedSnapshot


class Snapshot:
    """What a volume held at one time. ``ec2.create_volume(spec, instance, snapshot=...)`` makes a volume of it.

    Such a volume is slow until each of its blocks was read once; `Volume.initialised` does that.
    """

    def __init__(self, created: CreatedSnapshot) -> None:
        self.created = created

    @property
    def id(self) -> str:
        """Snapshot id, "snap-" and 17 hexadecimal digits."""
        return self.created.id

    @property
    def volume_id(self) -> str:
        """The volume it was made of."""
        return self.created.volume_id

    @property
    def size(self) -> Size:
        """Size of that volume then; one made from it is at least as large."""
        return self.created.size

    def __repr__(self) -> str:
        return f"<{self.created}>"
