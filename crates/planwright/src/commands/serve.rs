//! `planwright serve`: the HTTP API and the web page, with workers if wanted.

mod log;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use actors::Stop;
use plan::Caller;
use serde_json::json;
use server::{PlanServer, ServeError, ServerConfig, ServerLimits, ShutdownSignal};

use crate::cli::{App, CliFormat};
use crate::commands::{CommandAnswer, work};
use crate::error::{CommandError, ServerHost};
use crate::exit::CommandExit;
use crate::server_registry::{ServerRegistry, server_directory};
use crate::settings::StoreAddress;
use crate::{home, host, signals, ui};

/// Serve the API and the web page on this machine
///
/// Open the page with: planwright open
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Loopback address to listen on; port 0 picks a free port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7878")]
    listen: SocketAddr,
    /// Also run N workers
    #[arg(long, value_name = "N", default_value = "0")]
    work: usize,
    /// End this many seconds after the last client, unless a plan is running
    #[arg(long, value_name = "SECONDS", hide = true)]
    idle_timeout: Option<u64>,
    /// Use a free port if the port is taken
    #[arg(long, hide = true)]
    any_port: bool,
}

pub fn run(args: &ServeArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    refuse_agents()?;
    let stop = Stop::default();
    signals::stop_on_signals(&stop)?;
    // Must happen before the engine is opened, because the engine reads the host's id once. The first repository may be
    // registered later, by another process.
    host::register_host(&app.settings.home)?;
    let lifecycle = app.lifecycle()?;
    let server = bind_server(args)?;
    let address = server.address();
    let registry = open_registry(app)?;
    let unregistered = |error: std::io::Error| {
        CommandError::new(
            CommandExit::Error,
            format!("Cannot register the server in the home: {error}"),
        )
    };
    let registration = registry.register(address).map_err(unregistered)?;
    registry
        .remember_port(address.port())
        .map_err(unregistered)?;
    let host = Arc::new(ServerHost {
        lifecycle: lifecycle.clone(),
        invocation: app.invocation.clone(),
        settings: app.settings.clone(),
    });
    let config = ServerConfig {
        lifecycle: lifecycle.clone(),
        caller: home::current_person(),
        failures: host.clone(),
        configs: host,
        directory: server_directory(&app.settings.home),
        limits: ServerLimits::default(),
        idle_timeout: args.idle_timeout.map(Duration::from_secs),
    };
    if app.format == CliFormat::Human {
        let workers = ui::pluralize(args.work as u64, "worker");
        let open = app.invocation.render_hint("planwright open");
        let _ = writeln!(
            anstream::stderr().lock(),
            "Serving http://{address} with {workers}. Open the page: {open}"
        );
    }
    log::start();
    let worker = match args.work {
        0 => None,
        plans => Some(work::make_worker(app, &work::new_owner_name(app))?.concurrency(plans)),
    };
    let shutdown = ShutdownSignal::default();
    let (served, worked) = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.wait_for_request(Duration::from_secs(3600)) {}
            shutdown.request();
        });
        let working = scope.spawn(|| worker.as_ref().map(|worker| worker.run(&stop)));
        let served = server.run(&config, &shutdown);
        // An idle or failed server ends its workers, too.
        stop.request();
        (served, working.join())
    });
    drop(registration);
    served.map_err(|error| serve_error(&error))?;
    if let Ok(Some(worked)) = worked {
        worked?;
    }
    let data = json!({ "address": address.to_string() });
    Ok(CommandAnswer::new(data, "The server ended.\n"))
}

/// The servers of this home and store.
pub fn open_registry(app: &App) -> Result<ServerRegistry, CommandError> {
    let store = store_text(app).map_err(|error| {
        CommandError::new(
            CommandExit::Error,
            format!("Cannot resolve the store's path: {error}"),
        )
    })?;
    Ok(ServerRegistry::new(&app.settings.home, &store))
}

/// The store's address, the same from every directory.
pub fn store_text(app: &App) -> std::io::Result<String> {
    match app.settings.store_address() {
        Ok(StoreAddress::Sqlite(path)) => {
            Ok(format!("sqlite:{}", std::path::absolute(path)?.display()))
        }
        Ok(StoreAddress::Postgres(url)) => Ok(url),
        Err(error) => Err(std::io::Error::other(error.message)),
    }
}

/// A page acts as the person, so an agent may neither start a server nor open a session.
pub fn refuse_agents() -> Result<(), CommandError> {
    match home::current_caller() {
        Caller::Person(_) => Ok(()),
        Caller::Agent(_) | Caller::Worker(_) => Err(CommandError::new(
            CommandExit::NeedsPerson,
            "An agent cannot use the page: it acts as the person.",
        )
        .with_hint("Ask a person to do this.")),
    }
}

fn bind_server(args: &ServeArgs) -> Result<PlanServer, CommandError> {
    match PlanServer::bind(args.listen) {
        Err(ServeError::Bind { .. }) if args.any_port => {
            let free = SocketAddr::new(args.listen.ip(), 0);
            PlanServer::bind(free).map_err(|error| serve_error(&error))
        }
        bound => bound.map_err(|error| serve_error(&error)),
    }
}

fn serve_error(error: &ServeError) -> CommandError {
    match error {
        ServeError::NotLoopback(address) => CommandError::usage(format!(
            "{address} is not a loopback address. The server is only for this machine."
        ))
        .with_hint("planwright serve --listen 127.0.0.1:7878"),
        ServeError::Bind { address, error } => CommandError::new(
            CommandExit::Error,
            format!("Cannot listen on {address}: {error}."),
        )
        .with_hint("Use another port: planwright serve --listen 127.0.0.1:0"),
        ServeError::Io(error) => {
            CommandError::new(CommandExit::Error, format!("Cannot serve: {error}."))
        }
    }
}
