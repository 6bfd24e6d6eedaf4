"""A life is a thread of a graph with three nodes, its checkpoints in SQLite.

`durability="sync"` writes each checkpoint before the next node starts. One caller uses the saver for
synchronous programs, several the one for asyncio, as the savers' own documentation says.
"""

import asyncio
import os
import sqlite3
from typing import TypedDict

import aiosqlite
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph
from life import Starts, drive, drive_async, flags

FULL = "PRAGMA synchronous=FULL"


class Life(TypedDict):
    id: str
    phase: str


def graph(starts):
    def strategize(state):
        starts.begin(state["id"])
        return {"phase": "strategized"}

    builder = StateGraph(Life)
    builder.add_node("strategize", strategize)
    builder.add_node("execute", lambda state: {"phase": "executed"})
    builder.add_node("apply", lambda state: {"phase": "applied"})
    builder.add_edge(START, "strategize")
    builder.add_edge("strategize", "execute")
    builder.add_edge("execute", "apply")
    builder.add_edge("apply", END)
    return builder


def thread(life):
    return {"configurable": {"thread_id": life}}


def first(life):
    return {"id": life, "phase": "new"}


def one_caller(options, path, starts):
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute(FULL)
    compiled = graph(starts).compile(checkpointer=SqliteSaver(connection))
    drive(options, lambda life: compiled.invoke(first(life), thread(life), durability="sync"), starts)
    connection.close()


async def many_callers(options, path, starts):
    async with aiosqlite.connect(path) as connection:
        await connection.execute(FULL)
        compiled = graph(starts).compile(checkpointer=AsyncSqliteSaver(connection))

        async def live(life):
            await compiled.ainvoke(first(life), thread(life), durability="sync")

        await drive_async(options, live, starts)


def main():
    options = flags()
    starts = Starts()
    path = os.path.join(options.directory, "langgraph.db")
    if options.concurrency == 1:
        one_caller(options, path, starts)
    else:
        asyncio.run(many_callers(options, path, starts))


main()
