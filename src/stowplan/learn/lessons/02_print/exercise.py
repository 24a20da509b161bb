"""Lesson 2, see every pod: `stowplan learn read 2`, then `stowplan learn check 2`."""

import asyncio
import sys

from stowplan import PODS, ApiClient, StowplanError, follow, load_cluster_config


async def schedule(api: ApiClient, namespace: str) -> None:
    """Watch the pods of a namespace for ever, and print each change."""
    async for event in follow(api, PODS, namespace=namespace):
        pod = event.object
        # TODO: print the phase and the scheduler's name, too.
        print(f"pod: '{pod.metadata.name}'.")


async def main() -> None:
    async with ApiClient(load_cluster_config()) as api:
        await schedule(api, api.config.namespace)


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (StowplanError, KeyboardInterrupt) as problem:
        sys.exit(str(problem) or 130)  # Ctrl-C has no text
