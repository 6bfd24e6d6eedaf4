//! Planwright as a server of the Model Context Protocol, on standard input and output. Other agents start, watch and
//! revise plans with it; what lands is decided by people.
//!
//! It renders `api`, as the command line and the page do, and acts as an agent: the engine refuses what agents may not
//! do. It keeps no state but open requests: every answer comes from the store.

mod agent_access;
mod change_notices;
mod client_session;
pub mod install;
mod line_reader;
mod message;
mod message_writer;
mod plan_report;
mod prompts;
mod protocol;
mod resources;
pub mod run_tools;
mod running_requests;
mod tasks;
mod tool_answer;
mod tools;

use std::io::BufReader;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use actors::Stop;

pub use agent_access::{AgentAccess, choose_caller};
use client_session::{McpSession, SessionInput};
use line_reader::{MAX_LINE_BYTES, read_bounded_line};
use message_writer::MessageWriter;

/// Messages that are read before the first one is taken.
const MAX_QUEUED_MESSAGES: usize = 32;

/// How often to look whether this process is to end, at least.
const STOP_CHECK_INTERVAL: Duration = Duration::from_secs(3600);

/// Serves the client on standard input and output, on threads of its own, until the input ends or `stop` is requested.
/// Then requests `stop`. The receiver is disconnected when everything is answered.
pub fn start_serving(access: AgentAccess, stop: &Stop) -> std::io::Result<Receiver<()>> {
    let (sender, input) = sync_channel(MAX_QUEUED_MESSAGES);
    let (finished, end) = sync_channel(0);
    let lines = sender.clone();
    std::thread::Builder::new()
        .name("mcp input".to_owned())
        .spawn(move || read_input(&lines))?;
    let stopped = stop.clone();
    std::thread::Builder::new()
        .name("mcp stop".to_owned())
        .spawn(move || {
            while !stopped.wait_for_request(STOP_CHECK_INTERVAL) {}
            let _ = sender.send(SessionInput::Ended);
        })?;
    let stop = stop.clone();
    std::thread::Builder::new()
        .name("mcp session".to_owned())
        .spawn(move || {
            let writer = MessageWriter::new(std::io::stdout());
            let session = McpSession::new(access, writer);
            // Whatever happens, the main thread must learn that the session has ended.
            let _ = catch_unwind(AssertUnwindSafe(|| session.run(&input)));
            stop.request();
            drop(finished);
        })?;
    Ok(end)
}

/// Reads lines until the input ends. The thread blocks in the read and ends with the process.
fn read_input(lines: &SyncSender<SessionInput>) {
    let mut reader = BufReader::new(std::io::stdin());
    while let Ok(Some(line)) = read_bounded_line(&mut reader, MAX_LINE_BYTES) {
        if lines.send(SessionInput::Line(line)).is_err() {
            return;
        }
    }
    let _ = lines.send(SessionInput::Ended);
}
