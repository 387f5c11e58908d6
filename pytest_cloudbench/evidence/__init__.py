"""The evidence of a run: how it is recorded, verified, replayed and compared with earlier runs."""
