"""What every test runs under."""

from hypothesis import settings

# A busy machine is no defect of the code under test.
settings.register_profile("lode", deadline=None)
settings.load_profile("lode")
