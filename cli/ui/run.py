"""The work of ``lode ui``: follow the cluster, serve the page, until it is interrupted."""

import argparse
import secrets
import signal
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NoReturn

from cli import live
from cli.exitcodes import FAILED
from cli.ui.access import Door, OneUserDoor, ReviewedDoor
from cli.ui.answers import PageAnswers
from cli.ui.publishing import FleetDocuments
from cli.ui.questions import ClusterQuestions
from cli.ui.server import PageServer
from cli.ui.watching import FleetWatch
from driver.clock import SystemClock
from driver.errors import LodeError, OperatorFault
from driver.kube.access import from_environment
from driver.kube.client import KubeClient
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
            if arguments.listen:
                _serve_everybody(questions, arguments)
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
    token, hosts = secrets.token_urlsafe(32), set[str]()
    with _page(questions, OneUserDoor(token, questions), f"{_HOST}:{port}", hosts) as bound:
        hosts |= {f"{name}:{bound}" for name in (_HOST, "localhost")}
        yield f"http://{_HOST}:{bound}/#token={token}"


@contextmanager
def served_to_all(
    questions: ClusterQuestions, connect: Callable[[str], AbstractContextManager[ClusterQuestions]], address: str
) -> Iterator[int]:
    """Serve the page to users of the cluster, each with the rights of the token that they send; yields the port.

    Args:
        questions: with the rights of this program: it reads the fleet and asks who may see what of it.
        connect: connects to the cluster with a token.

    Raises:
        OperatorFault: the address cannot be used.
    """
    with _page(questions, ReviewedDoor(questions.api, connect, SystemClock()), address, None) as bound:
        yield bound


@contextmanager
def _page(questions: ClusterQuestions, door: Door, address: str, hosts: Collection[str] | None) -> Iterator[int]:
    clock = SystemClock()
    watch = FleetWatch(questions.api, questions.names, clock, questions.namespace)
    documents = FleetDocuments(watch, questions.names.driver, clock)
    try:
        server = PageServer(address, PageAnswers(documents, door, hosts, PAGE).answer)
    except (OSError, OverflowError, ValueError) as error:
        raise OperatorFault(f"address {address}: cannot be used: {error}; choose another one") from error
    watch.start()
    documents.start()
    try:
        yield server.port
    finally:
        server.close()
        documents.close()
        watch.close()


def _serve_everybody(questions: ClusterQuestions, arguments: argparse.Namespace) -> NoReturn:
    """Serve until the program is ended, as a pod does it."""
    access = from_environment(arguments.kubeconfig, context=arguments.context)

    @contextmanager
    def connect(token: str) -> Iterator[ClusterQuestions]:
        client = KubeClient(replace(access, cert_file="", key_file="", token=lambda: token))
        try:
            yield replace(questions, api=client)
        finally:
            client.close()

    with served_to_all(questions, connect, arguments.listen) as port:
        # The kernel ends the first program of a container only if it asks for that.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        print(f"Serving users with their own tokens at {arguments.listen.rpartition(':')[0]}:{port}", flush=True)
        while True:
            threading.Event().wait()
