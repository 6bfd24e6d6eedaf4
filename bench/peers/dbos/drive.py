"""A life is a workflow of three steps. On PostgreSQL if `--postgres` is given, else on SQLite.

Workflows are called as plain functions, several from several threads; their status and every step's
outcome stay in the database.
"""

import os

from dbos import DBOS, SetWorkflowID
from life import Starts, drive, flags

options = flags()
starts = Starts()


@DBOS.step()
def strategize(life):
    starts.begin(life)
    return "strategized"


@DBOS.step()
def execute(life):
    return "executed"


@DBOS.step()
def apply(life):
    return "applied"


@DBOS.workflow()
def plan(life):
    strategize(life)
    execute(life)
    return apply(life)


def live(life):
    with SetWorkflowID(life):
        plan(life)


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
    drive(options, live, starts)
    DBOS.destroy()


main()
