"""A TCP forwarder that delays what clients send, as a network with latency does.

    python -P testclusters/forwarder.py 6444 6443 0.02     # port to listen on, port of the server, seconds

Bytes arrive in order and without a limit of bandwidth: what was sent while other bytes were under way arrives that much
after it was sent. What the server sends is not delayed. So a request on an open connection takes the given time longer,
and the start of a TLS connection twice that time. Nothing is decrypted, hence HTTP/1.1 and HTTP/2 are delayed alike.
"""

import argparse
import asyncio
from contextlib import suppress

_LOOPBACK = "127.0.0.1"
_CHUNK = 1 << 18
"""Bytes that are read at once."""


class Forwarder:
    """Forwards connections to the port ``target`` of this machine; ``delay`` is in seconds."""

    def __init__(self, target: int, delay: float) -> None:
        self._target = target
        self._delay = delay

    async def listen(self, port: int) -> asyncio.Server:
        """Accept connections on ``port`` of this machine; 0 selects a free one. Raises `OSError` if it is in use."""
        return await asyncio.start_server(self._forward, _LOOPBACK, port, limit=_CHUNK)

    async def _forward(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            from_server, to_server = await asyncio.open_connection(_LOOPBACK, self._target, limit=_CHUNK)
        except OSError:  # the client sees a connection that ends, as if the server had refused it
            to_client.close()
            return
        directions = {
            asyncio.create_task(self._delayed(from_client, to_server)),
            asyncio.create_task(_at_once(from_server, to_client)),
        }
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)
            to_server.close()
            to_client.close()

    async def _delayed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clock = asyncio.get_running_loop().time
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        delivering = asyncio.create_task(_deliver(under_way, writer))
        try:
            while data := await reader.read(_CHUNK):
                under_way.put_nowait((clock() + self._delay, data))
            await under_way.join()
        except OSError:
            return
        finally:
            delivering.cancel()


async def _deliver(under_way: "asyncio.Queue[tuple[float, bytes]]", writer: asyncio.StreamWriter) -> None:
    """Write each entry of the queue when its time, of the loop's clock, has come."""
    clock = asyncio.get_running_loop().time
    while True:
        due, data = await under_way.get()
        if (pause := due - clock()) > 0:
            await asyncio.sleep(pause)
        with suppress(OSError):  # the server has gone; the other direction ends the connection
            writer.write(data)
            await writer.drain()
        under_way.task_done()


async def _at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()


async def _serve(port: int, target: int, delay: float) -> None:
    server = await Forwarder(target, delay).listen(port)
    await server.serve_forever()


def main() -> None:
    """Forward until the process is ended."""
    parser = argparse.ArgumentParser(description="Forward a TCP port and delay what clients send.")
    parser.add_argument("port", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("delay", type=float, help="seconds")
    arguments = parser.parse_args()
    asyncio.run(_serve(arguments.port, arguments.target, arguments.delay))


if __name__ == "__main__":
    main()
