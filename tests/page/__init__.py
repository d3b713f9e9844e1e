"""The page of `lode ui` in Chromium, which `make ui-test` runs: the driver of the browser is not a library of other
tests."""
