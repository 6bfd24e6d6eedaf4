"""Shared by the Python drivers: flags, the closed loop of callers, and the line that is printed.

A driver keeps `--concurrency` workflows running for `--seconds` and waits for the last to end. With `--idle` it starts
single workflows on an idle system and measures how long it takes until their first step runs.
"""

import argparse
import asyncio
import itertools
import json
import random
import threading
import time


def parse_flags():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--postgres", help="URL of an empty database")
    parser.add_argument("--directory", help="empty directory on the measured disk")
    return parser.parse_args()


class StartTimes:
    """When the first step of each workflow started."""

    def __init__(self):
        self.times = {}

    def record(self, workflow_id):
        self.times[workflow_id] = time.perf_counter()


def print_throughput(seconds, latencies):
    print(json.dumps({"workflows": len(latencies), "seconds": seconds, "latencies_ms": latencies}))


def print_idle(waits):
    print(json.dumps({"idle_ms": waits}))


def idle_delay():
    """Long enough for a system that polls to go idle. Random, so that it never falls into step with the poll interval."""
    return random.uniform(0.05, 0.15)


def warmup_numbers(options):
    return iter(range(options.warmup))


def numbers_until_deadline(options):
    deadline = time.perf_counter() + options.seconds
    return itertools.takewhile(lambda _: time.perf_counter() < deadline, itertools.count())


def run_driver(options, run_workflow, start_times):
    """Calls `run_workflow(id)`, which blocks, from `--concurrency` threads, and prints the results."""
    run_threads(options.concurrency, warmup_numbers(options), lambda number: run_workflow(f"warm-{number}"))
    if options.idle:
        waits = []
        for number in range(options.idle):
            time.sleep(idle_delay())
            workflow_id = f"idle-{number}"
            requested = time.perf_counter()
            run_workflow(workflow_id)
            waits.append((start_times.times[workflow_id] - requested) * 1000)
        print_idle(waits)
        return
    latencies = []

    def run_timed(number):
        requested = time.perf_counter()
        run_workflow(f"run-{number}")
        latencies.append((time.perf_counter() - requested) * 1000)

    start = time.perf_counter()
    run_threads(options.concurrency, numbers_until_deadline(options), run_timed)
    print_throughput(time.perf_counter() - start, latencies)


def run_threads(callers, numbers, work):
    """Runs `work(number)` from several threads until there are no numbers left. Raises the first failure."""
    lock = threading.Lock()
    failures = []

    def take_number():
        with lock:
            return None if failures else next(numbers, None)

    def run_caller():
        try:
            while (number := take_number()) is not None:
                work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run_caller) for _ in range(callers - 1)]
    for thread in threads:
        thread.start()
    run_caller()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


async def run_driver_async(options, run_workflow, start_times):
    """The same for `await run_workflow(id)`, with tasks instead of threads."""
    await run_tasks(options.concurrency, warmup_numbers(options), lambda number: run_workflow(f"warm-{number}"))
    if options.idle:
        waits = []
        for number in range(options.idle):
            await asyncio.sleep(idle_delay())
            workflow_id = f"idle-{number}"
            requested = time.perf_counter()
            await run_workflow(workflow_id)
            waits.append((start_times.times[workflow_id] - requested) * 1000)
        print_idle(waits)
        return
    latencies = []

    async def run_timed(number):
        requested = time.perf_counter()
        await run_workflow(f"run-{number}")
        latencies.append((time.perf_counter() - requested) * 1000)

    start = time.perf_counter()
    await run_tasks(options.concurrency, numbers_until_deadline(options), run_timed)
    print_throughput(time.perf_counter() - start, latencies)


async def run_tasks(callers, numbers, work):
    async def run_caller():
        for number in numbers:
            await work(number)

    await asyncio.gather(*(run_caller() for _ in range(callers)))
