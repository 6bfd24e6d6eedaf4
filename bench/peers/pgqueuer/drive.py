"""A life is three jobs, each enqueueing the next; PgQueuer keeps a log of all of them.

A life counts as over when its last job has run; that it did is logged a moment later, in a batch.
"""

import asyncio
import logging

import asyncpg
from life import Starts, drive_async, flags
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

CONNECTIONS = 10


async def main():
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    options = flags()
    starts = Starts()
    waiting = {}
    # One connection can listen, many can work: a pool is what it advises for more than one job at a time.
    async with asyncpg.create_pool(options.postgres, min_size=2, max_size=CONNECTIONS) as pool:
        queuer = PgQueuer.from_asyncpg_pool(pool)
        queries = Queries(queuer.connection)
        await queries.install()

        @queuer.entrypoint("strategize")
        async def strategize(job: Job):
            starts.begin(job.payload.decode())
            await queries.enqueue("execute", job.payload)

        @queuer.entrypoint("execute")
        async def execute(job: Job):
            await queries.enqueue("apply", job.payload)

        @queuer.entrypoint("apply")
        async def apply(job: Job):
            waiting.pop(job.payload.decode()).set_result(None)

        async def live(life):
            over = asyncio.get_running_loop().create_future()
            waiting[life] = over
            await queries.enqueue("strategize", life.encode())
            await over

        working = asyncio.create_task(queuer.run(batch_size=max(10, options.concurrency)))
        driving = asyncio.create_task(drive_async(options, live, starts))
        await asyncio.wait([working, driving], return_when=asyncio.FIRST_COMPLETED)
        if not driving.done():
            await working
            raise SystemExit("the worker ended before the lives did")
        await driving
        queuer.shutdown.set()
        await working


asyncio.run(main())
