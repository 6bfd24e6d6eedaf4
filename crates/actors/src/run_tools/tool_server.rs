//! The worker's side of the socket: one thread answers all connections of a run, one call at a time.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::call_allowance::CallAllowance;
use super::connection_file;
use super::relay_protocol::{
    MAX_RELAY_LINE_BYTES, RelayGreeting, RelayTarget, RelayedCall, RunToolAnswer,
};
use super::tool_call::RunToolCall;
use crate::command::run_dir::create_private_file;

const SOCKET_NAME: &str = "tools.sock";

/// An agent may start several relays, one for each of its subagents.
const MAX_CONNECTIONS: usize = 16;

/// How long a connection may take to send the secret.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// How often to look for connections that sent no secret.
const POLL_TIMEOUT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// How much is read at once.
const READ_BYTES: usize = 16 * 1024;

pub(super) struct RunToolServer {
    listener: UnixListener,
    run_dir: PathBuf,
    connection_file: PathBuf,
    secret: String,
    is_ended: AtomicBool,
    /// Closing one end wakes the thread that waits at the other.
    wake_sender: UnixStream,
    wake_receiver: UnixStream,
}

struct RelayPeer {
    socket: UnixStream,
    connected_at: Instant,
    /// It knows the secret.
    is_admitted: bool,
    unread: Vec<u8>,
}

/// Whether to keep a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PeerState {
    Open,
    Closed,
}

impl RunToolServer {
    /// Opens the socket in the directory of a run.
    pub(super) fn bind(run_dir: &Path) -> io::Result<Self> {
        remove_if_exists(&run_dir.join(SOCKET_NAME))?;
        let listener = with_socket_path(run_dir, SOCKET_NAME, |path| UnixListener::bind(path))?;
        fs::set_permissions(run_dir.join(SOCKET_NAME), fs::Permissions::from_mode(0o600))?;
        // A peer may be gone before it is accepted.
        listener.set_nonblocking(true)?;
        let secret = make_secret()?;
        let target = RelayTarget {
            socket: SOCKET_NAME.to_owned(),
            secret: secret.clone(),
        };
        let connection_file = connection_file(run_dir);
        serde_json::to_writer(create_private_file(&connection_file)?, &target)?;
        let (wake_sender, wake_receiver) = UnixStream::pair()?;
        Ok(Self {
            listener,
            run_dir: run_dir.to_owned(),
            connection_file,
            secret,
            is_ended: AtomicBool::new(false),
            wake_sender,
            wake_receiver,
        })
    }

    pub(super) fn connection_file(&self) -> &Path {
        &self.connection_file
    }

    /// Ends [`Self::serve`] when the guard is dropped.
    pub(super) fn end_on_drop(&self) -> EndGuard<'_> {
        EndGuard(self)
    }

    /// Answers calls until the run ends.
    pub(super) fn serve(&self, perform: &dyn Fn(RunToolCall) -> RunToolAnswer) {
        let mut peers: Vec<RelayPeer> = Vec::new();
        let mut allowance = CallAllowance::new(Instant::now());
        while let Some(ready) = self.wait_for_input(&peers) {
            let mut states = Vec::with_capacity(peers.len());
            for (peer, is_ready) in peers.iter_mut().zip(&ready.peers) {
                states.push(match is_ready {
                    true => self.read_peer(peer, &mut allowance, perform),
                    false if peer.is_overdue() => PeerState::Closed,
                    false => PeerState::Open,
                });
            }
            let mut states = states.into_iter();
            peers.retain(|_| states.next() != Some(PeerState::Closed));
            if ready.listener {
                self.accept_peer(&mut peers);
            }
        }
    }

    /// `None` if the run has ended.
    fn wait_for_input(&self, peers: &[RelayPeer]) -> Option<ReadySockets> {
        loop {
            let own = [self.wake_receiver.as_fd(), self.listener.as_fd()];
            let sockets = own
                .into_iter()
                .chain(peers.iter().map(|peer| peer.socket.as_fd()));
            let mut polled: Vec<PollFd<'_>> = sockets
                .map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN))
                .collect();
            let waits_for_greeting = peers.iter().any(|peer| !peer.is_admitted);
            let timeout = waits_for_greeting.then_some(&POLL_TIMEOUT);
            let waited = poll(&mut polled, timeout);
            if self.is_ended.load(Ordering::SeqCst) {
                return None;
            }
            match waited {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return None,
            }
            let ready: Vec<bool> = polled
                .iter()
                .map(|socket| !socket.revents().is_empty())
                .collect();
            return Some(ReadySockets {
                listener: ready[1],
                peers: ready[2..].to_vec(),
            });
        }
    }

    fn accept_peer(&self, peers: &mut Vec<RelayPeer>) {
        let Ok((socket, _)) = self.listener.accept() else {
            return;
        };
        if socket.set_nonblocking(true).is_err() {
            return;
        }
        // Whoever knows the secret is not kept out by others.
        if peers.len() >= MAX_CONNECTIONS {
            match peers.iter().position(|peer| !peer.is_admitted) {
                Some(oldest) => drop(peers.remove(oldest)),
                None => return,
            }
        }
        peers.push(RelayPeer {
            socket,
            connected_at: Instant::now(),
            is_admitted: false,
            unread: Vec::new(),
        });
    }

    /// Reads what arrived and answers every whole line of it.
    fn read_peer(
        &self,
        peer: &mut RelayPeer,
        allowance: &mut CallAllowance,
        perform: &dyn Fn(RunToolCall) -> RunToolAnswer,
    ) -> PeerState {
        let mut buffer = [0; READ_BYTES];
        match peer.socket.read(&mut buffer) {
            Ok(0) => return PeerState::Closed,
            Ok(count) => peer.unread.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return PeerState::Open,
            Err(_) => return PeerState::Closed,
        }
        while let Some(end) = peer.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = peer.unread.drain(..=end).collect();
            if !peer.is_admitted {
                let greeting = serde_json::from_slice::<RelayGreeting>(&line);
                if !greeting.is_ok_and(|greeting| greeting.secret == self.secret) {
                    return PeerState::Closed;
                }
                peer.is_admitted = true;
                continue;
            }
            // A run that ended takes no call that still waits here.
            if self.is_ended.load(Ordering::SeqCst) {
                return PeerState::Closed;
            }
            let answer = answer_line(&line, allowance, perform);
            if peer.send_answer(&answer).is_err() {
                return PeerState::Closed;
            }
        }
        let limit = match peer.is_admitted {
            true => MAX_RELAY_LINE_BYTES,
            false => READ_BYTES,
        };
        match peer.unread.len() > limit {
            true => PeerState::Closed,
            false => PeerState::Open,
        }
    }
}

impl Drop for RunToolServer {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.connection_file);
        let _ = fs::remove_file(self.run_dir.join(SOCKET_NAME));
    }
}

pub(super) struct EndGuard<'a>(&'a RunToolServer);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.is_ended.store(true, Ordering::SeqCst);
        let _ = self.0.wake_sender.shutdown(std::net::Shutdown::Both);
    }
}

/// What can be read from without waiting.
struct ReadySockets {
    listener: bool,
    peers: Vec<bool>,
}

impl RelayPeer {
    fn is_overdue(&self) -> bool {
        !self.is_admitted && self.connected_at.elapsed() >= GREETING_TIMEOUT
    }

    /// Fails if the peer does not read its answers.
    fn send_answer(&mut self, answer: &RunToolAnswer) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        self.socket.write_all(&line)
    }
}

fn answer_line(
    line: &[u8],
    allowance: &mut CallAllowance,
    perform: &dyn Fn(RunToolCall) -> RunToolAnswer,
) -> RunToolAnswer {
    let mut read_call = || {
        allowance.take(Instant::now())?;
        let call: RelayedCall = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        RunToolCall::parse(&call.tool, call.arguments)
    };
    match read_call() {
        Ok(call) => perform(call),
        Err(why) => RunToolAnswer::Refused { why },
    }
}

/// Calls `use_path` with a path to the socket that is short enough for any directory.
#[cfg(target_os = "linux")]
pub(super) fn with_socket_path<T>(
    directory: &Path,
    name: &str,
    use_path: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags};

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = File::from(rustix::fs::open(directory, flags, Mode::empty())?);
    let path = format!("/proc/self/fd/{}/{name}", directory.as_raw_fd());
    use_path(Path::new(&path))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn with_socket_path<T>(
    directory: &Path,
    name: &str,
    use_path: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    use_path(&directory.join(name))
}

fn make_secret() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
