//! Runs the model server of `testkit` as a process, and reads what agents asked it.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;

/// A running server. Dropping it ends it.
pub struct ModelServer {
    process: Child,
    address: SocketAddr,
    log: PathBuf,
}

impl ModelServer {
    pub fn start(program: &Path, log: PathBuf) -> anyhow::Result<Self> {
        // It ends with its standard input, so also if this process is killed.
        let process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(File::create(&log)?)
            .spawn()
            .context("could not start the model server")?;
        let mut server = Self {
            process,
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            log,
        };
        server.address = server.wait_for_address()?;
        Ok(server)
    }

    fn wait_for_address(&mut self) -> anyhow::Result<SocketAddr> {
        let deadline = Instant::now() + START_TIMEOUT;
        while Instant::now() < deadline {
            let lines = self.read_lines()?;
            if let Some(address) = lines.first().and_then(|line| line["address"].as_str()) {
                return Ok(address.parse()?);
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("the model server ended: {status}");
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("the model server did not start within {START_TIMEOUT:?}")
    }

    /// The base URL of a model that fails in this way.
    pub fn base_url(&self, fault: ModelTrouble) -> String {
        let address = match fault {
            ModelTrouble::Refused => REFUSING_ADDRESS.to_owned(),
            _ => self.address.to_string(),
        };
        format!("http://{address}/{}", fault.as_path())
    }

    /// How many requests there were so far.
    pub fn count_requests(&self) -> anyhow::Result<usize> {
        Ok(self.read_lines()?.len())
    }

    /// What was asked after the first `count` requests.
    pub fn requests_after(&self, count: usize) -> anyhow::Result<Vec<Value>> {
        Ok(self.read_lines()?.split_off(count))
    }

    /// All whole lines of the log. The first has the address.
    fn read_lines(&self) -> anyhow::Result<Vec<Value>> {
        let text = fs::read_to_string(&self.log)?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole
            .lines()
            .map(|line| Ok(serde_json::from_str(line)?))
            .collect()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It ends by itself; waiting only removes it from the process table.
        let _ = self.process.wait();
    }
}

/// What is wrong with the model that an agent gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ModelTrouble {
    #[value(skip)]
    None,
    /// Every request fails with status 500
    #[value(name = "500")]
    ServerError,
    /// Every request fails with status 401
    #[value(name = "401")]
    Unauthorized,
    /// Every request fails with status 429
    #[value(name = "429")]
    RateLimit,
    /// Requests fail with status 500 after the agent has changed a file
    Midway,
    /// Nothing is answered
    Hang,
    /// Answers end in the middle
    Cut,
    /// Answers are empty
    Mute,
    /// No connection is accepted
    Refused,
}

impl ModelTrouble {
    pub fn as_path(self) -> &'static str {
        match self {
            Self::None | Self::Refused => "ok",
            Self::ServerError => "500",
            Self::Unauthorized => "401",
            Self::RateLimit => "429",
            Self::Midway => "midway",
            Self::Hang => "hang",
            Self::Cut => "cut",
            Self::Mute => "mute",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            _ => self.as_path(),
        }
    }
}

/// Nothing listens on the port of the discard service.
const REFUSING_ADDRESS: &str = "127.0.0.1:9";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
