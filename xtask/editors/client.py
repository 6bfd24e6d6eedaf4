"""Drives a plan from the first prompt to its landing with the protocol's Python library.

Arguments: the program, and a repository whose agent adds a line to `notes.txt`. The library reads every message with a
model of the protocol's schema.
"""

import asyncio
import os
import pathlib
import sys

from acp import PROTOCOL_VERSION, Client, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse
from acp.stdio import spawn_agent_process


class TestEditor(Client):
    """Answers questions with one option, and remembers what it was told."""

    def __init__(self, option):
        self.option = option
        self.updates = []
        self.questions = []

    async def request_permission(self, session_id, tool_call, options, **_):
        self.questions.append(tool_call)
        outcome = AllowedOutcome(outcome="selected", option_id=self.option)
        return RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)

    def update_kinds(self):
        return {update.session_update for update in self.updates}


async def converse(program, option, conversation):
    """Starts the agent, runs a conversation with it, and waits for its end."""
    editor = TestEditor(option)
    started = spawn_agent_process(editor, program, "acp", "--land", env=dict(os.environ))
    async with started as (connection, process):
        initialized = await connection.initialize(protocol_version=PROTOCOL_VERSION)
        assert initialized.protocol_version == 1, initialized
        assert initialized.agent_info.name == "planwright", initialized
        await conversation(connection, editor)
    assert await process.wait() == 0, process.returncode


async def prompt(connection, session_id, text):
    return await connection.prompt(session_id=session_id, prompt=[text_block(text)])


async def main(program, repository):
    notes = pathlib.Path(repository) / "notes.txt"
    session = {}

    async def start_plan(connection, editor):
        opened = await connection.new_session(cwd=repository, mcp_servers=[])
        session["id"] = opened.session_id
        assert [option.id for option in opened.config_options] == ["agent", "profile"], opened
        await connection.set_session_mode(session_id=opened.session_id, mode_id="review")
        answer = await prompt(connection, opened.session_id, "Write a line")
        assert answer.stop_reason == "end_turn", answer
        assert [call.content[0].type for call in editor.questions] == ["diff"], editor.questions
        expected = {"agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update"}
        assert expected <= editor.update_kinds(), editor.update_kinds()

    async def land_plan(connection, editor):
        await connection.load_session(session_id=session["id"], cwd=repository, mcp_servers=[])
        assert "user_message_chunk" in editor.update_kinds(), editor.update_kinds()
        answer = await prompt(connection, session["id"], "Once more")
        assert answer.field_meta["planwright"]["standing"] == "landed", answer

    await converse(program, "keep", start_plan)
    assert notes.read_text() == "", notes.read_text()
    await converse(program, "land", land_plan)
    assert notes.read_text() == "Write a line\nWrite a line\n", notes.read_text()


asyncio.run(main(*sys.argv[1:]))
