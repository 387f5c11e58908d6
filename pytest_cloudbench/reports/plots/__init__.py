"""Pictures of measurements, for reports: SVG, with PNG beside it."""
