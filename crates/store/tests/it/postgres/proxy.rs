//! A proxy that drops connections around COMMIT.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What the proxy does with the next COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitCut {
    /// Forwards it.
    Nothing,
    /// Forwards the writes, but not COMMIT, and drops the connection.
    BeforeCommit,
    /// Forwards only half of the bytes sent with COMMIT and drops the connection.
    Between,
    /// Forwards COMMIT, withholds the response and drops the connection.
    BeforeAnswer,
    /// Withholds COMMIT and keeps the connection open.
    Silence,
}

/// A proxy on its own port.
pub struct CommitProxy {
    state: Arc<CommitProxyState>,
    address: SocketAddr,
}

struct CommitProxyState {
    server: SocketAddr,
    cut: Mutex<CommitCut>,
    /// New connections are closed at once.
    closed: AtomicBool,
    /// Sets `closed` at the next cut.
    close_with_cut: AtomicBool,
}

impl CommitProxy {
    /// Starts a proxy for the server with this URL.
    pub fn before(url: &str) -> Self {
        let (_, rest) = url.rsplit_once('@').expect("the URL names a user");
        let (host, _) = rest.split_once('/').expect("the URL names a database");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(CommitProxyState {
            server: host
                .parse()
                .expect("the server for tests is given by its number"),
            cut: Mutex::new(CommitCut::Nothing),
            closed: AtomicBool::new(false),
            close_with_cut: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                if !state.closed.load(Ordering::SeqCst) {
                    std::thread::spawn(move || forward_requests(&state, client));
                }
            }
        });
        Self { state, address }
    }

    /// Returns the server's URL through this proxy.
    pub fn url(&self, url: &str) -> String {
        let (before, rest) = url.rsplit_once('@').unwrap();
        let (_, after) = rest.split_once('/').unwrap();
        format!("{before}@{}/{after}", self.address)
    }

    /// Applies this cut to the next COMMIT, once.
    pub fn cut_next(&self, cut: CommitCut) {
        *self.state.cut.lock().unwrap() = cut;
    }

    /// Refuses new connections after the next cut.
    pub fn close_with_cut(&self) {
        self.state.close_with_cut.store(true, Ordering::SeqCst);
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.state.close_with_cut.store(false, Ordering::SeqCst);
        self.state.closed.store(false, Ordering::SeqCst);
    }

    /// Checks whether the cut has happened.
    pub fn is_done(&self) -> bool {
        *self.state.cut.lock().unwrap() == CommitCut::Nothing
    }
}

/// COMMIT as the driver sends it.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// The server's response to it.
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";

fn forward_requests(state: &CommitProxyState, mut client: TcpStream) {
    let Ok(mut server) = TcpStream::connect(state.server) else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let withhold = Arc::new(AtomicBool::new(false));
    let back = {
        let (client, server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let withhold = Arc::clone(&withhold);
        std::thread::spawn(move || forward_answers(server, client, &withhold))
    };
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let sent = &buffer[..length];
        let Some(at) = sent
            .windows(COMMIT.len())
            .position(|window| window == COMMIT)
        else {
            if server.write_all(sent).is_err() {
                break;
            }
            continue;
        };
        let cut = std::mem::replace(&mut *state.cut.lock().unwrap(), CommitCut::Nothing);
        if cut != CommitCut::Nothing && state.close_with_cut.load(Ordering::SeqCst) {
            state.closed.store(true, Ordering::SeqCst);
        }
        let passed = match cut {
            CommitCut::Nothing => {
                if server.write_all(sent).is_err() {
                    break;
                }
                continue;
            }
            CommitCut::BeforeCommit | CommitCut::Silence => &sent[..at],
            CommitCut::Between => &sent[..at / 2],
            CommitCut::BeforeAnswer => {
                withhold.store(true, Ordering::SeqCst);
                sent
            }
        };
        let _ = server.write_all(passed);
        match cut {
            // The other thread drops the connection when it has seen the response.
            CommitCut::BeforeAnswer => drop(back.join()),
            CommitCut::Silence => {
                // Wait until the client gives up.
                while matches!(client.read(&mut buffer), Ok(1..)) {}
                // Keep the server's connection open, so that the server does not notice.
                std::mem::forget(server);
                return;
            }
            CommitCut::Nothing | CommitCut::BeforeCommit | CommitCut::Between => {}
        }
        break;
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn forward_answers(mut server: TcpStream, mut client: TcpStream, withhold: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    let mut withheld = Vec::new();
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        if withhold.load(Ordering::SeqCst) {
            withheld.extend_from_slice(&buffer[..length]);
            if withheld
                .windows(COMMITTED.len())
                .any(|window| window == COMMITTED)
            {
                break;
            }
        } else if client.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    if !withhold.load(Ordering::SeqCst) {
        let _ = client.shutdown(Shutdown::Both);
    }
}
