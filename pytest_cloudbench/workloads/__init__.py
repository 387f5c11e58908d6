"""The loads that tests put on targets, and their measurements."""
