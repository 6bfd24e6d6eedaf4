//! Messages on the sockets: lines of JSON with a maximum length. Arguments and paths need not be
//! UTF-8.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::process_spec::{Confinement, ProcessSpec, ReachablePaths};
use super::run_ending::{IsolationLevel, RunEnding};

/// The longest process spec. The kernel accepts only a few megabytes of arguments and environment.
pub(super) const MAX_SPEC_BYTES: u64 = 8 << 20;

/// The longest message in the other direction.
pub(super) const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// Asks the supervising process to stop its program.
pub(super) const STOP_MESSAGE: &[u8] = b"stop\n";

/// Readable in JSON if it is UTF-8.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum OsText {
    Utf8(String),
    Bytes(Vec<u8>),
}

impl<T: AsRef<OsStr>> From<T> for OsText {
    fn from(text: T) -> Self {
        let text = text.as_ref();
        match text.to_str() {
            Some(text) => Self::Utf8(text.to_owned()),
            None => Self::Bytes(text.as_bytes().to_vec()),
        }
    }
}

impl From<OsText> for OsString {
    fn from(text: OsText) -> Self {
        match text {
            OsText::Utf8(text) => text.into(),
            OsText::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProcessSpecMessage {
    command: Vec<OsText>,
    directory: OsText,
    environment: Vec<(OsText, OsText)>,
    input: Option<OsText>,
    confinement: ConfinementMessage,
    locks: Vec<OsText>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ConfinementMessage {
    Off,
    WherePossible(ReachablePathsMessage),
    Required(ReachablePathsMessage),
}

#[derive(Debug, Serialize, Deserialize)]
struct ReachablePathsMessage {
    writable: Vec<OsText>,
    readable: Vec<OsText>,
}

/// Sent by the launcher. The end of the socket means that it became the program.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LauncherMessage {
    /// How far it is confined from now on.
    Isolated(IsolationLevel),
    /// The reason why the program could not be started.
    NotStarted(String),
}

/// Sent by the supervising process to its worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SupervisorReply {
    /// The program runs, confined this far.
    Began(IsolationLevel),
    /// The program and all its descendants are gone.
    Ended(RunEnding),
}

impl ProcessSpecMessage {
    pub fn from_spec(spec: &ProcessSpec) -> Self {
        let reach = |reach: &ReachablePaths| ReachablePathsMessage {
            writable: to_os_texts(&reach.writable),
            readable: to_os_texts(&reach.readable),
        };
        Self {
            command: to_os_texts(&spec.command),
            directory: OsText::from(&spec.directory),
            environment: spec
                .environment
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            input: spec.input.as_ref().map(OsText::from),
            confinement: match &spec.confinement {
                Confinement::Off => ConfinementMessage::Off,
                Confinement::WherePossible(paths) => {
                    ConfinementMessage::WherePossible(reach(paths))
                }
                Confinement::Required(paths) => ConfinementMessage::Required(reach(paths)),
            },
            locks: to_os_texts(&spec.locks),
        }
    }

    pub fn into_spec(self) -> ProcessSpec {
        let reach = |reach: ReachablePathsMessage| ReachablePaths {
            writable: from_os_texts(reach.writable),
            readable: from_os_texts(reach.readable),
        };
        ProcessSpec {
            command: from_os_texts(self.command),
            directory: into_path(self.directory),
            environment: self
                .environment
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            input: self.input.map(into_path),
            confinement: match self.confinement {
                ConfinementMessage::Off => Confinement::Off,
                ConfinementMessage::WherePossible(paths) => {
                    Confinement::WherePossible(reach(paths))
                }
                ConfinementMessage::Required(paths) => Confinement::Required(reach(paths)),
            },
            locks: from_os_texts(self.locks),
        }
    }
}

/// The socket that a stage has as its standard input. Not inherited by processes it starts.
pub(super) fn open_stdin_socket() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let socket = UnixStream::from(socket);
    // Fails for anything but a socket.
    socket.local_addr()?;
    Ok(socket)
}

pub(super) fn encode_line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("BUG: a message always encodes");
    line.push(b'\n');
    line
}

pub(super) fn send_message<T: Serialize>(mut socket: &UnixStream, message: &T) -> io::Result<()> {
    socket.write_all(&encode_line(message))
}

/// The next line; `None` at the end. A line without a line break is an error.
pub(super) fn read_limited_line(
    socket: &mut impl BufRead,
    limit: u64,
) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    socket.take(limit).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(io::Error::other("a message was cut off")),
    }
}

pub(super) fn decode_message<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(io::Error::other)
}

fn to_os_texts<T: AsRef<OsStr>>(all: &[T]) -> Vec<OsText> {
    all.iter().map(OsText::from).collect()
}

fn into_path(text: OsText) -> PathBuf {
    OsString::from(text).into()
}

fn from_os_texts<T: From<OsString>>(all: Vec<OsText>) -> Vec<T> {
    all.into_iter()
        .map(|text| OsString::from(text).into())
        .collect()
}
