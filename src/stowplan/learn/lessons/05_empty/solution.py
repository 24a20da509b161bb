"""The random scheduler, stage 1, empty: see `stowplan learn read 5`."""

import asyncio
import logging
import signal
import sys

from stowplan import ApiClient, Pod, StowplanError, load_cluster_config

SCHEDULER_NAME = "random-scheduler"
log = logging.getLogger(SCHEDULER_NAME)


class Scheduler:
    def __init__(self, api: ApiClient) -> None:
        self.api = api
        self.queue: asyncio.Queue[Pod] = asyncio.Queue()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set."""
        log.info("Run is called")
        await stop.wait()


async def main() -> None:
    log.info("Start a scheduler")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, stop.set)  # Ctrl-C
    async with ApiClient(load_cluster_config()) as api:
        await Scheduler(api).run(stop)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(asctime)s %(message)s", datefmt="%Y/%m/%d %H:%M:%S")
    try:
        asyncio.run(main())
    except StowplanError as problem:
        sys.exit(str(problem) or 130)  # Ctrl-C has no text
