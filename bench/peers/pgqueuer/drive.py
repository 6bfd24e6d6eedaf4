"""Three PgQueuer jobs, each enqueueing the next. PgQueuer keeps a log of all jobs.

A workflow counts as complete when its last job has run. PgQueuer logs that a moment later, in a batch.
"""

import asyncio
import logging

import asyncpg
from driver import StartTimes, parse_flags, run_driver_async
from pgqueuer import PgQueuer
from pgqueuer.models import Job
from pgqueuer.queries import Queries

MAX_CONNECTIONS = 10


async def main():
    logging.getLogger("pgqueuer").setLevel(logging.ERROR)
    options = parse_flags()
    start_times = StartTimes()
    completions = {}
    # PgQueuer advises a pool for more than one job at a time: one connection listens, the others work.
    async with asyncpg.create_pool(options.postgres, min_size=2, max_size=MAX_CONNECTIONS) as pool:
        queuer = PgQueuer.from_asyncpg_pool(pool)
        queries = Queries(queuer.connection)
        await queries.install()

        @queuer.entrypoint("strategize")
        async def strategize(job: Job):
            start_times.record(job.payload.decode())
            await queries.enqueue("execute", job.payload)

        @queuer.entrypoint("execute")
        async def execute(job: Job):
            await queries.enqueue("apply", job.payload)

        @queuer.entrypoint("apply")
        async def apply(job: Job):
            completions.pop(job.payload.decode()).set_result(None)

        async def run_workflow(workflow_id):
            completion = asyncio.get_running_loop().create_future()
            completions[workflow_id] = completion
            await queries.enqueue("strategize", workflow_id.encode())
            await completion

        worker = asyncio.create_task(queuer.run(batch_size=max(10, options.concurrency)))
        driver = asyncio.create_task(run_driver_async(options, run_workflow, start_times))
        await asyncio.wait([worker, driver], return_when=asyncio.FIRST_COMPLETED)
        if not driver.done():
            await worker
            raise SystemExit("the worker ended before all workflows were complete")
        await driver
        queuer.shutdown.set()
        await worker


asyncio.run(main())
