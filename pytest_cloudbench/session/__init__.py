"""Sessions that are recorded, replayed, or neither."""
