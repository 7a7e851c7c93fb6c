"""What holds for every test."""

from hypothesis import HealthCheck, settings

# Examples are the same in every run, and a busy machine is no failure.
settings.register_profile(
    "ragbench",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("ragbench")
