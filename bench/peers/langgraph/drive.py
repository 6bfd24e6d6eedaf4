"""A thread of a LangGraph graph with three nodes, with its checkpoints in SQLite.

`durability="sync"` writes each checkpoint before the next node starts. One caller uses the synchronous saver, several
use the one for asyncio, as the savers' documentation advises.
"""

import asyncio
import os
import sqlite3
from typing import TypedDict

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from driver import StartTimes, parse_flags, run_driver, run_driver_async

FULL_SYNC = "PRAGMA synchronous=FULL"


class WorkflowState(TypedDict):
    id: str
    phase: str


def build_graph(start_times):
    def strategize(state):
        start_times.record(state["id"])
        return {"phase": "strategized"}

    builder = StateGraph(WorkflowState)
    builder.add_node("strategize", strategize)
    builder.add_node("execute", lambda state: {"phase": "executed"})
    builder.add_node("apply", lambda state: {"phase": "applied"})
    builder.add_edge(START, "strategize")
    builder.add_edge("strategize", "execute")
    builder.add_edge("execute", "apply")
    builder.add_edge("apply", END)
    return builder


def thread_config(workflow_id):
    return {"configurable": {"thread_id": workflow_id}}


def initial_state(workflow_id):
    return {"id": workflow_id, "phase": "new"}


def run_single_caller(options, path, start_times):
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute(FULL_SYNC)
    graph = build_graph(start_times).compile(checkpointer=SqliteSaver(connection))

    def run_workflow(workflow_id):
        graph.invoke(initial_state(workflow_id), thread_config(workflow_id), durability="sync")

    run_driver(options, run_workflow, start_times)
    connection.close()


async def run_many_callers(options, path, start_times):
    async with aiosqlite.connect(path) as connection:
        await connection.execute(FULL_SYNC)
        graph = build_graph(start_times).compile(checkpointer=AsyncSqliteSaver(connection))

        async def run_workflow(workflow_id):
            await graph.ainvoke(initial_state(workflow_id), thread_config(workflow_id), durability="sync")

        await run_driver_async(options, run_workflow, start_times)


def main():
    options = parse_flags()
    start_times = StartTimes()
    path = os.path.join(options.directory, "langgraph.db")
    if options.concurrency == 1:
        run_single_caller(options, path, start_times)
    else:
        asyncio.run(run_many_callers(options, path, start_times))


main()
