"""The documentation site, which `make site` builds and then tests: its libraries are not those of other tests."""
