//! `planwright acp`: Planwright as an agent for editors that speak the Agent Client Protocol.

mod connection;
mod editor_server;
mod editor_session;
mod landing_offer;
mod permission_offer;
mod plan_summary;
mod prompt_text;
mod prompt_turn;
mod session_history;
mod session_list;
mod session_opening;
mod session_options;
mod session_update;
mod turn_observer;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use actors::Stop;
use serde_json::json;

use connection::{ConnectionCloser, EditorConnection, EditorMessage, read_message};
use editor_server::EditorServer;
use landing_offer::EditorLanding;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::{settings, signals};

/// Be an agent for your editor, by the Agent Client Protocol
///
/// Your editor starts this and talks to it on standard input and output. A prompt starts a plan, the next
/// one revises it. Nothing lands until you land it.
#[derive(Debug, clap::Args)]
pub struct AcpArgs {
    /// Ask in the editor whether to land each result; a yes counts as yours
    #[arg(long)]
    land: bool,
}

/// How often the thread that waits for signals looks at all. It is woken by them.
const SIGNAL_WAIT: Duration = Duration::from_secs(3600);

pub fn run(args: &AcpArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    refuse_agents()?;
    let landing = match args.land {
        true => EditorLanding::Asks,
        false => EditorLanding::Never,
    };
    if std::io::stdin().is_terminal() {
        let _ = writeln!(
            anstream::stderr().lock(),
            "Waiting for an editor on standard input. An editor starts this itself."
        );
    }
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    let server = EditorServer::new(app, EditorConnection::start(open_output()?), landing);
    let (sender, inputs) = sync_channel(1);
    let end = InputEnd {
        sender: sender.clone(),
        closer: server.connection.closer(),
    };
    spawn_signal_watch(stop, end.clone());
    spawn_reader(sender, end);
    std::thread::scope(|threads| {
        while let Ok(EditorInput::Message(message)) = inputs.recv() {
            server.receive(message, threads);
        }
        server.stop_all();
    });
    // Every thread that could hold it has ended.
    if let Some(connection) = Arc::into_inner(server.connection) {
        connection.finish();
    }
    // Standard output belongs to the protocol.
    Ok(CommandAnswer::new(json!(null), ""))
}

/// Opens standard output past the lock of the standard library. A write to an editor that does not read would hold that
/// lock, and the program could not end.
fn open_output() -> Result<File, CommandError> {
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    output.map(File::from).map_err(|error| {
        let message = format!("Cannot use standard output: {error}");
        CommandError::new(CommandExit::Error, message)
    })
}

enum EditorInput {
    Message(EditorMessage),
    /// The editor is gone, or a signal arrived.
    Ended,
}

/// Ends the program.
#[derive(Clone)]
struct InputEnd {
    sender: SyncSender<EditorInput>,
    closer: ConnectionCloser,
}

impl InputEnd {
    fn report(&self) {
        // First, because the receiver may be waiting for the editor to read an answer.
        self.closer.begin_closing();
        let _already_ending = self.sender.send(EditorInput::Ended);
    }
}

/// Reads messages until the input ends. The thread is not waited for: a read cannot be interrupted.
fn spawn_reader(sender: SyncSender<EditorInput>, end: InputEnd) {
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        while let Ok(Some(message)) = read_message(&mut input) {
            if sender.send(EditorInput::Message(message)).is_err() {
                return;
            }
        }
        end.report();
    });
}

fn spawn_signal_watch(stop: Stop, end: InputEnd) {
    std::thread::spawn(move || {
        while !stop.wait_for_request(SIGNAL_WAIT) {}
        end.report();
    });
}

/// An editor's sessions run agents and, with `--land`, speak for the person. An agent must do neither from its run.
fn refuse_agents() -> Result<(), CommandError> {
    match settings::enclosing_run() {
        None => Ok(()),
        Some(_) => Err(CommandError::new(
            CommandExit::NeedsPerson,
            "An agent cannot be the editor of other agents.",
        )
        .with_hint("Ask a person to do this.")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// The receiver may be writing to an editor that does not read.
    #[test]
    fn connection_closes_before_the_end_is_received() {
        let (sender, inputs) = sync_channel(0);
        let closer = ConnectionCloser::default();
        let end = InputEnd {
            sender,
            closer: closer.clone(),
        };
        let reporting = std::thread::spawn(move || end.report());
        let began = Instant::now();
        while !closer.is_closing() {
            assert!(began.elapsed() < Duration::from_secs(60));
            std::thread::yield_now();
        }
        assert!(matches!(inputs.recv(), Ok(EditorInput::Ended)));
        reporting.join().unwrap();
    }
}
