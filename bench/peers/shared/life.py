"""What every Python driver shares: its flags, the closed loop of callers, and the one line it prints.

A driver keeps `--concurrency` lives going for `--seconds` and waits for the last to end, or, with
`--idle`, starts single lives on an idle peer and tells how long it took until their first step ran.
"""

import argparse
import asyncio
import itertools
import json
import random
import threading
import time


def flags():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--concurrency", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=0)
    parser.add_argument("--idle", type=int, default=0)
    parser.add_argument("--postgres", help="the URL of an empty database")
    parser.add_argument("--directory", help="an empty directory on the disk that is measured")
    return parser.parse_args()


class Starts:
    """When the first step of each life began."""

    def __init__(self):
        self.at = {}

    def begin(self, life):
        self.at[life] = time.perf_counter()


def report(lives, seconds, latencies):
    print(json.dumps({"lives": lives, "seconds": seconds, "latencies_ms": latencies}))


def report_idle(waits):
    print(json.dumps({"idle_ms": waits}))


def pause():
    """Long enough that a peer which polls has gone to sleep, and never in step with it."""
    return random.uniform(0.05, 0.15)


def warming(options):
    """The numbers of the lives that are not measured."""
    return iter(range(options.warmup))


def measuring(options):
    """Numbers of lives until time is over."""
    deadline = time.perf_counter() + options.seconds
    return itertools.takewhile(lambda _: time.perf_counter() < deadline, itertools.count())


def drive(options, live, starts):
    """Runs `live(id)`, a blocking call, from as many threads as there are callers."""
    crowd(options.concurrency, warming(options), lambda number: live(f"warm-{number}"))
    if options.idle:
        waits = []
        for number in range(options.idle):
            time.sleep(pause())
            life = f"idle-{number}"
            begun = time.perf_counter()
            live(life)
            waits.append((starts.at[life] - begun) * 1000)
        report_idle(waits)
        return
    latencies = []

    def timed(number):
        begun = time.perf_counter()
        live(f"life-{number}")
        latencies.append((time.perf_counter() - begun) * 1000)

    begun = time.perf_counter()
    crowd(options.concurrency, measuring(options), timed)
    report(len(latencies), time.perf_counter() - begun, latencies)


def crowd(callers, numbers, work):
    """So many threads take numbers until there are none left. The first failure is raised."""
    taking = threading.Lock()
    failures = []

    def take():
        with taking:
            return None if failures else next(numbers, None)

    def caller():
        try:
            while (number := take()) is not None:
                work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=caller) for _ in range(callers - 1)]
    for thread in threads:
        thread.start()
    caller()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


async def drive_async(options, live, starts):
    """The same for `await live(id)`, from as many tasks."""
    await crowd_async(options.concurrency, warming(options), lambda number: live(f"warm-{number}"))
    if options.idle:
        waits = []
        for number in range(options.idle):
            await asyncio.sleep(pause())
            life = f"idle-{number}"
            begun = time.perf_counter()
            await live(life)
            waits.append((starts.at[life] - begun) * 1000)
        report_idle(waits)
        return
    latencies = []

    async def timed(number):
        begun = time.perf_counter()
        await live(f"life-{number}")
        latencies.append((time.perf_counter() - begun) * 1000)

    begun = time.perf_counter()
    await crowd_async(options.concurrency, measuring(options), timed)
    report(len(latencies), time.perf_counter() - begun, latencies)


async def crowd_async(callers, numbers, work):
    async def caller():
        for number in numbers:
            await work(number)

    await asyncio.gather(*(caller() for _ in range(callers)))
