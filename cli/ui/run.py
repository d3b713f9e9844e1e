"""The work of ``lode ui``: follow the cluster, serve the page, until it is interrupted."""

import argparse
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cli import live
from cli.exitcodes import FAILED
from cli.ui.answers import PageAnswers
from cli.ui.publishing import FleetDocuments
from cli.ui.questions import ClusterQuestions
from cli.ui.server import PageServer
from cli.ui.watching import FleetWatch
from driver.clock import SystemClock
from driver.errors import LodeError, OperatorFault
from driver.names import Names
from driver.observe import configure_logs

PAGE: Final = Path(__file__).parent / "page"
"""The files of the page."""
_HOST: Final = "127.0.0.1"


def run(arguments: argparse.Namespace) -> int:
    """Serve until the user interrupts it; the exit status."""
    configure_logs("error", "console")
    try:
        with live.cluster(arguments.kubeconfig, arguments.context) as (api, namespace):
            questions = ClusterQuestions(api, Names(arguments.driver), arguments.namespace or namespace)
            with served(questions, arguments.port) as address:
                print(f"The fleet is at {address}\nInterrupt (Ctrl-C) to stop.", flush=True)
                threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    except LodeError as error:
        sys.stderr.write(f"lode ui: {error}\n")
        return FAILED
    return 0


@contextmanager
def served(questions: ClusterQuestions, port: int = 0) -> Iterator[str]:
    """Serve the page of a cluster on this machine alone; yields its address, with the token that it needs.

    Args:
        port: 0 for one that is free.

    Raises:
        OperatorFault: the port cannot be used.
    """
    clock, token = SystemClock(), secrets.token_urlsafe(32)
    watch = FleetWatch(questions.api, questions.names, clock, questions.namespace)
    documents = FleetDocuments(watch, questions.names.driver, clock)
    hosts: set[str] = set()
    answers = PageAnswers(documents, questions, hosts, token, PAGE)
    try:
        server = PageServer(f"{_HOST}:{port}", answers.answer)
    except OSError as error:
        raise OperatorFault(f"--port {port}: cannot be used: {error.strerror}; choose another one") from error
    hosts |= {f"{name}:{server.port}" for name in (_HOST, "localhost")}
    watch.start()
    documents.start()
    try:
        yield f"http://{_HOST}:{server.port}/#token={token}"
    finally:
        server.close()
        documents.close()
        watch.close()
