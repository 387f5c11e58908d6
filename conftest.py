"""Settings of this project's own test runs."""

pytest_plugins = ["pytester"]
