"""A DBOS workflow of three steps, on PostgreSQL with `--postgres`, otherwise on SQLite.

The driver calls workflows as plain functions, from several threads. The database keeps their status and the result of
every step.
"""

import os

from dbos import DBOS, SetWorkflowID
from driver import StartTimes, parse_flags, run_driver

options = parse_flags()
start_times = StartTimes()


@DBOS.step()
def strategize(workflow_id):
    start_times.record(workflow_id)
    return "strategized"


@DBOS.step()
def execute(workflow_id):
    return "executed"


@DBOS.step()
def apply(workflow_id):
    return "applied"


@DBOS.workflow()
def plan(workflow_id):
    strategize(workflow_id)
    execute(workflow_id)
    return apply(workflow_id)


def run_workflow(workflow_id):
    with SetWorkflowID(workflow_id):
        plan(workflow_id)


def main():
    if options.postgres:
        url = options.postgres.replace("postgres://", "postgresql://", 1)
    else:
        url = "sqlite:///" + os.path.join(options.directory, "dbos.db")
    DBOS(config={
        "name": "planwright-bench",
        "system_database_url": url,
        "sys_db_pool_size": max(20, options.concurrency),
        "log_level": "ERROR",
    })
    DBOS.launch()
    run_driver(options, run_workflow, start_times)
    DBOS.destroy()


main()
