//! `planwright open`: opens the page in the browser, and starts a server in the background if none runs.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use serde_json::json;
use server::{EntryCode, SessionStore};
use store::Clock;

use crate::cli::App;
use crate::commands::{CommandAnswer, serve};
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::home;
use crate::server_registry::{RunningServer, ServerRegistry, server_directory};

/// How long a server in the background may take to start or end.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const STOP_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A server in the background ends this long after its last client.
const IDLE_TIMEOUT_SECONDS: u64 = 600;
const BACKGROUND_WORKERS: usize = 2;
const DEFAULT_PORT: u16 = 7878;

/// Open the web page in your browser
///
/// Starts a server with two workers in the background if none is running. It ends ten minutes
/// after you close the last page, unless a plan is running.
#[derive(Debug, clap::Args)]
pub struct OpenArgs {
    /// Plan ID or handle to show, or @ for the plan you used last
    id: Option<String>,
    /// Print a link instead of opening the browser. It works once, for one minute
    #[arg(long)]
    print: bool,
    /// Stop the server
    #[arg(long, conflicts_with_all = ["id", "print"])]
    stop: bool,
}

pub fn run(args: &OpenArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    serve::refuse_agents()?;
    let registry = serve::open_registry(app)?;
    if args.stop {
        return stop_server(&registry);
    }
    let plan = match &args.id {
        Some(id) => {
            let plan_id = app.resolve_plan(id)?;
            app.lifecycle()?.get_plan(plan_id)?;
            Some(app.lifecycle()?.short_handle(plan_id)?)
        }
        None => None,
    };
    let server = match registry
        .find_running()
        .map_err(|error| home_error(&error))?
    {
        Some(server) => server,
        None => start_in_background(app, &registry)?,
    };
    let directory = server_directory(&app.settings.home);
    let sessions = SessionStore::new(&directory, Clock::default());
    let code = sessions.issue_code().map_err(|error| home_error(&error))?;
    let link = entry_link(server, &code, plan.as_deref());
    let address = format!("http://{}", server.address);
    let data = |link: Option<&str>| json!({ "address": address, "link": link });
    if args.print {
        return Ok(CommandAnswer::new(data(Some(&link)), format!("{link}\n")));
    }
    let file = write_entry_page(&directory, &link).map_err(|error| home_error(&error))?;
    match open_in_browser(&file) {
        Ok(()) => Ok(CommandAnswer::new(
            data(None),
            format!("Opened {address}\n"),
        )),
        Err(_) => Ok(
            CommandAnswer::new(data(Some(&link)), format!("{link}\n")).with_hint(
                "No browser was found. Open the link above; it works once, for one minute.",
            ),
        ),
    }
}

/// The code is in the fragment, which browsers do not send to servers.
fn entry_link(server: RunningServer, code: &EntryCode, plan: Option<&str>) -> String {
    let to = plan.map_or(String::new(), |plan| format!("&to=/{plan}"));
    format!("http://{}/enter#code={}{to}", server.address, code.as_str())
}

/// Writes the private page that hands the code to the browser. Command lines are visible to other users.
fn write_entry_page(directory: &Path, link: &str) -> std::io::Result<PathBuf> {
    home::make_private_directory(directory)?;
    let file = directory.join("open.html");
    let link = link.replace('&', "&amp;");
    let page = format!(
        "<!doctype html><meta charset=utf-8><title>Planwright</title>\
         <meta http-equiv=refresh content=\"0; url={link}\">\
         <p><a href=\"{link}\">Open Planwright</a></p>\n"
    );
    home::write_private_file(&file, &page)?;
    Ok(file)
}

#[expect(
    clippy::disallowed_methods,
    reason = "starts the person's browser, not a program of a plan"
)]
fn open_in_browser(file: &Path) -> std::io::Result<()> {
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let status = Command::new(opener)
        .arg(file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(std::io::Error::other("no browser")),
    }
}

fn start_in_background(
    app: &App,
    registry: &ServerRegistry,
) -> Result<RunningServer, CommandError> {
    let directory = server_directory(&app.settings.home);
    home::make_private_directory(&directory).map_err(|error| home_error(&error))?;
    let log = directory.join("log");
    home::write_private_file(&log, "").map_err(|error| home_error(&error))?;
    let mut server = spawn_server(app, registry, &log).map_err(|error| {
        CommandError::new(
            CommandExit::Error,
            format!("Cannot start the server: {error}"),
        )
    })?;
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(running) = registry
            .find_running()
            .map_err(|error| home_error(&error))?
        {
            return Ok(running);
        }
        let has_ended = server
            .try_wait()
            .map_err(|error| home_error(&error))?
            .is_some();
        if has_ended || Instant::now() >= deadline {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(CommandError::new(
                CommandExit::Error,
                format!("The server did not start.\n{}", said.trim_end()),
            )
            .with_hint("planwright serve"));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "starts this program as a server, not a program of a plan"
)]
fn spawn_server(
    app: &App,
    registry: &ServerRegistry,
    log: &Path,
) -> std::io::Result<std::process::Child> {
    let port = registry.last_port().unwrap_or(DEFAULT_PORT);
    let output = File::options().append(true).open(log)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        // Not as an argument: the address may contain a password.
        .env("PLANWRIGHT_STORE", serve::store_text(app)?)
        .env("PLANWRIGHT_HOME", std::path::absolute(&app.settings.home)?)
        .args([
            "serve",
            "--any-port",
            "--listen",
            &format!("127.0.0.1:{port}"),
        ])
        .args(["--work", &BACKGROUND_WORKERS.to_string()])
        .args(["--idle-timeout", &IDLE_TIMEOUT_SECONDS.to_string()])
        // Outlives the directory it was started in.
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        // Ctrl-C and the end of the terminal do not reach it.
        .process_group(0)
        .spawn()
}

fn stop_server(registry: &ServerRegistry) -> Result<CommandAnswer, CommandError> {
    let Some(server) = registry
        .find_running()
        .map_err(|error| home_error(&error))?
    else {
        let data = json!({ "stopped": false });
        return Ok(CommandAnswer::new(data, "No server is running.\n"));
    };
    let process = Pid::from_raw(server.process);
    let signalled = process.map(|process| rustix::process::kill_process(process, Signal::TERM));
    if let Some(Err(error)) = signalled {
        return Err(home_error(&error.into()));
    }
    let deadline = Instant::now() + STOP_TIMEOUT;
    while registry
        .find_running()
        .map_err(|error| home_error(&error))?
        == Some(server)
    {
        if Instant::now() >= deadline {
            return Err(CommandError::new(
                CommandExit::TimedOut,
                format!("The server (process {}) did not end.", server.process),
            ));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let data = json!({ "stopped": true });
    Ok(CommandAnswer::new(data, "Stopped the server.\n"))
}

fn home_error(error: &std::io::Error) -> CommandError {
    CommandError::new(
        CommandExit::Error,
        format!("Cannot use the server's files in the home: {error}"),
    )
}
