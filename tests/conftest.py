"""Settings of this project's own tests."""

from hypothesis import HealthCheck, settings

# How long an example takes says nothing here, and on a busy or emulated machine it is anything.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
