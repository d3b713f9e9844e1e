"""One target under libFuzzer: ``python -m tests.fuzz.guided TARGET [OPTIONS OF LIBFUZZER] [CORPUS ...]``.

Only this module imports atheris.
"""

import sys

import atheris

with atheris.instrument_imports(include=["controller", "driver", "kubeletplugin", "cli", "memoryapi"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    """Run until libFuzzer ends the process."""
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target.run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
