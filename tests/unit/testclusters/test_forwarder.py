"""The forwarder: what arrives, in which order, and when."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from testclusters.forwarder import Forwarder

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def through_a_forwarder(delay: float, server: Talk, client: Talk) -> None:
    """Run a conversation between a server and a client that is connected to it by a forwarder."""

    async def run() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server(reader, writer)
            writer.close()

        target = await asyncio.start_server(serve, "127.0.0.1", 0)
        forwarder = await Forwarder(_port(target), delay).listen(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", _port(forwarder))
        try:
            await client(reader, writer)
        finally:
            writer.close()
            forwarder.close()
            target.close()
            await _all_connections_have_ended()

    asyncio.run(run())


async def _all_connections_have_ended() -> None:
    current = asyncio.current_task()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not current), return_exceptions=True)
    await asyncio.sleep(0)  # transports that were closed last


def _port(server: asyncio.Server) -> int:
    return int(server.sockets[0].getsockname()[1])


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)


@pytest.mark.parametrize("delay", [0.0, 0.01])
def test_everything_arrives_in_order(delay: float) -> None:
    sent = random.Random(1).randbytes(3_000_000)

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(sent), 7_001):
            writer.write(sent[start : start + 7_001])
            await asyncio.sleep(0)
        assert await reader.readexactly(len(sent)) == sent

    through_a_forwarder(delay, echo, client)


def test_an_answer_takes_at_least_the_delay() -> None:
    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        for _ in range(3):
            asked = clock()
            writer.write(b"request")
            assert await reader.readexactly(7) == b"request"
            assert clock() - asked >= 0.05

    through_a_forwarder(0.05, echo, client)


def test_what_the_server_sends_is_not_held_back_by_what_the_client_sends() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"never delivered")
        assert await reader.read() == b"hello"

    through_a_forwarder(3600.0, greet, client)


def test_the_connection_ends_after_the_last_byte_of_a_client_that_hangs_up() -> None:
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def collect(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        received.put_nowait(await reader.read())

    async def client(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"farewell")
        writer.close()
        assert await received.get() == b"farewell"

    through_a_forwarder(0.05, collect, client)


def test_a_connection_to_a_server_that_does_not_listen_ends() -> None:
    async def run() -> None:
        closed = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = _port(closed)
        closed.close()
        forwarder = await Forwarder(port, 0.0).listen(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", _port(forwarder))
        assert await reader.read() == b""
        writer.close()
        forwarder.close()
        await _all_connections_have_ended()

    asyncio.run(run())
