//! What goes over the sockets: lines of JSON, each with a limit. Words and paths need not be text.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::ending::{Ending, Isolated};
use super::errand::{Confinement, Errand, Reach};

/// The longest errand. The system itself takes no more than a few megabytes of words and environment.
pub(super) const ERRAND_LIMIT: u64 = 8 << 20;

/// The longest answer.
pub(super) const ANSWER_LIMIT: u64 = 64 << 10;

/// Asks the supervising process to end its program.
pub(super) const STOP: &[u8] = b"stop\n";

/// Bytes, readable where they are text.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Text {
    Utf8(String),
    Bytes(Vec<u8>),
}

impl<T: AsRef<OsStr>> From<T> for Text {
    fn from(text: T) -> Self {
        let text = text.as_ref();
        match text.to_str() {
            Some(text) => Self::Utf8(text.to_owned()),
            None => Self::Bytes(text.as_bytes().to_vec()),
        }
    }
}

impl From<Text> for OsString {
    fn from(text: Text) -> Self {
        match text {
            Text::Utf8(text) => text.into(),
            Text::Bytes(bytes) => Self::from_vec(bytes),
        }
    }
}

/// An errand on its way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentErrand {
    command: Vec<Text>,
    directory: Text,
    environment: Vec<(Text, Text)>,
    input: Option<Text>,
    confinement: SentConfinement,
    locks: Vec<Text>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SentConfinement {
    Off,
    WherePossible(SentReach),
    Required(SentReach),
}

#[derive(Debug, Serialize, Deserialize)]
struct SentReach {
    writable: Vec<Text>,
    readable: Vec<Text>,
}

/// What the last stage says before it becomes the program. That it became the program is said by the
/// end of the socket.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// How far it is confined from here on.
    Isolated(Isolated),
    /// The program could not be started, and this is why.
    NotStarted(String),
}

/// What the supervising process tells its worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Told {
    /// The program runs, confined this far.
    Began(Isolated),
    /// Nothing of it is left.
    Ended(Ending),
}

impl SentErrand {
    /// Packs an errand.
    pub fn pack(errand: &Errand) -> Self {
        let reach = |reach: &Reach| SentReach {
            writable: texts(&reach.writable),
            readable: texts(&reach.readable),
        };
        Self {
            command: texts(&errand.command),
            directory: Text::from(&errand.directory),
            environment: errand
                .environment
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            input: errand.input.as_ref().map(Text::from),
            confinement: match &errand.confinement {
                Confinement::Off => SentConfinement::Off,
                Confinement::WherePossible(wide) => SentConfinement::WherePossible(reach(wide)),
                Confinement::Required(wide) => SentConfinement::Required(reach(wide)),
            },
            locks: texts(&errand.locks),
        }
    }

    /// The errand.
    pub fn unpack(self) -> Errand {
        let reach = |reach: SentReach| Reach {
            writable: read(reach.writable),
            readable: read(reach.readable),
        };
        Errand {
            command: read(self.command),
            directory: path(self.directory),
            environment: self
                .environment
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            input: self.input.map(path),
            confinement: match self.confinement {
                SentConfinement::Off => Confinement::Off,
                SentConfinement::WherePossible(wide) => Confinement::WherePossible(reach(wide)),
                SentConfinement::Required(wide) => Confinement::Required(reach(wide)),
            },
            locks: read(self.locks),
        }
    }
}

/// The socket that a stage finds in place of its standard input. What it starts does not inherit it.
pub(super) fn socket_at_standard_input() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let socket = UnixStream::from(socket);
    // Anything but a socket has no address.
    socket.local_addr()?;
    Ok(socket)
}

/// A message as a line.
pub(super) fn line<T: Serialize>(message: &T) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("BUG: a message always encodes");
    line.push(b'\n');
    line
}

/// Sends a message.
pub(super) fn tell<T: Serialize>(mut socket: &UnixStream, message: &T) -> io::Result<()> {
    socket.write_all(&line(message))
}

/// The next line, if there is one.
pub(super) fn next_line(socket: &mut impl BufRead, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    socket.take(limit).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) => Err(io::Error::other("a message was cut off")),
    }
}

/// What a line says.
pub(super) fn read_message<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(io::Error::other)
}

fn texts<T: AsRef<OsStr>>(all: &[T]) -> Vec<Text> {
    all.iter().map(Text::from).collect()
}

fn path(text: Text) -> PathBuf {
    OsString::from(text).into()
}

fn read<T: From<OsString>>(all: Vec<Text>) -> Vec<T> {
    all.into_iter()
        .map(|text| OsString::from(text).into())
        .collect()
}
