//! `planwright mcp`: serves plans to other agents over the Model Context Protocol.

use std::io::{IsTerminal, Write};
use std::num::NonZeroUsize;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use actors::Stop;

use crate::cli::App;
use crate::commands::{CommandAnswer, serve, work};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::mcp::install::InstallArgs;
use crate::mcp::{self, AgentAccess};
use crate::{host, signals};

/// How long this process waits for answers that a client does not read.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Let other agents start and watch plans, over the Model Context Protocol
///
/// Agents can start, watch, revise and cancel plans of their own. They cannot answer, approve or land: you do. Set
/// it up with: planwright mcp install claude
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct McpArgs {
    /// Name under which plans are started. Only agents of the same name can revise and cancel them
    #[arg(long, value_name = "NAME", default_value = "mcp", value_parser = parse_agent_name)]
    name: String,
    /// Number of plans to run at once, of those that are started here
    #[arg(long, value_name = "N", default_value = "2")]
    work: NonZeroUsize,
    #[command(subcommand)]
    command: Option<McpCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum McpCommand {
    Install(InstallArgs),
}

/// What the main thread waits for.
enum ServingSignal {
    /// There is a plan to run.
    WorkRequested,
    Stopped,
}

pub fn run(args: &McpArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    match &args.command {
        Some(McpCommand::Install(install)) => mcp::install::run(install, app),
        None => serve_client(args, app),
    }
}

/// Serves one client until it closes the input. The plans that it started run here, on threads of a worker that starts
/// with the first of them; at the end they are given back.
fn serve_client(args: &McpArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    // Must happen before the engine is opened, because the engine reads the host's id.
    host::register_host(&app.settings.home)?;
    let lifecycle = app.lifecycle()?.clone();
    let caller = mcp::choose_caller(&args.name);
    if std::io::stdin().is_terminal() {
        let install = app.invocation.render_hint("planwright mcp install claude");
        let _ = writeln!(
            anstream::stderr().lock(),
            "Waiting for a client on standard input. To set one up: {install}"
        );
    }
    let (sender, signals) = sync_channel(1);
    let stopped = (stop.clone(), sender.clone());
    let access = AgentAccess {
        lifecycle,
        invocation: app.invocation.clone(),
        registry: serve::open_registry(app)?,
        clock: app.clock.clone(),
        caller: caller.clone(),
        // If there is a signal already, the worker has been asked for.
        request_work: Box::new(move || drop(sender.try_send(ServingSignal::WorkRequested))),
    };
    let failed = |error: std::io::Error| {
        CommandError::new(
            CommandExit::Error,
            format!("Cannot start a thread: {error}"),
        )
    };
    let answered = mcp::start_serving(access, &stop).map_err(failed)?;
    std::thread::Builder::new()
        .name("mcp end".to_owned())
        .spawn(move || {
            let (stop, sender) = stopped;
            while !stop.wait_for_request(Duration::from_secs(3600)) {}
            let _ = sender.send(ServingSignal::Stopped);
        })
        .map_err(failed)?;
    let worked = match signals.recv() {
        Ok(ServingSignal::WorkRequested) => {
            let worker = work::make_worker(app, &work::new_owner_name(app))?
                .concurrency(args.work.get())
                .only_author(Some(caller));
            worker.run(&stop).map(drop)
        }
        Ok(ServingSignal::Stopped) | Err(_) => Ok(()),
    };
    if worked.is_err() {
        stop.request();
    }
    let _ = answered.recv_timeout(ANSWER_TIMEOUT);
    worked?;
    // Standard output carries nothing but messages of the protocol.
    Ok(CommandAnswer::new((), ""))
}

/// A name that fits into the plans' history.
fn parse_agent_name(text: &str) -> Result<String, String> {
    const MAX_NAME_LENGTH: usize = 40;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    match !text.is_empty() && text.len() <= MAX_NAME_LENGTH && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "use up to {MAX_NAME_LENGTH} letters, digits, `-`, `_` and `.`"
        )),
    }
}
