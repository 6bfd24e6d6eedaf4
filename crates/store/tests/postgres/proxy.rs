//! A proxy before the server that cuts connections around COMMIT.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What happens to the next COMMIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It passes.
    Nothing,
    /// The writes are passed on, COMMIT is not; the connection is cut.
    BeforeCommit,
    /// Only half of what was sent with COMMIT is passed on; the connection is cut.
    Between,
    /// COMMIT is passed on and carried out; its answer is not passed on, the connection is cut.
    BeforeAnswer,
    /// COMMIT is not passed on, and the connection stays open in silence.
    Silence,
}

/// A proxy on a port of its own.
pub struct Proxy {
    state: Arc<State>,
    address: SocketAddr,
}

struct State {
    server: SocketAddr,
    cut: Mutex<Cut>,
    /// New connections are closed at once.
    closed: AtomicBool,
    /// Close from the next cut on.
    close_with_cut: AtomicBool,
}

impl Proxy {
    /// Before the server with this URL.
    pub fn before(url: &str) -> Self {
        let (_, rest) = url.rsplit_once('@').expect("the URL names a user");
        let (host, _) = rest.split_once('/').expect("the URL names a database");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            server: host
                .parse()
                .expect("the server for tests is given by its number"),
            cut: Mutex::new(Cut::Nothing),
            closed: AtomicBool::new(false),
            close_with_cut: AtomicBool::new(false),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                if !state.closed.load(Ordering::SeqCst) {
                    std::thread::spawn(move || pass(&state, client));
                }
            }
        });
        Self { state, address }
    }

    /// The server's URL through this proxy.
    pub fn url(&self, url: &str) -> String {
        let (before, rest) = url.rsplit_once('@').unwrap();
        let (_, after) = rest.split_once('/').unwrap();
        format!("{before}@{}/{after}", self.address)
    }

    /// Cuts at the next COMMIT, once.
    pub fn cut_next(&self, cut: Cut) {
        *self.state.cut.lock().unwrap() = cut;
    }

    /// Accepts no connection from the next cut on.
    pub fn close_with_cut(&self) {
        self.state.close_with_cut.store(true, Ordering::SeqCst);
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.state.close_with_cut.store(false, Ordering::SeqCst);
        self.state.closed.store(false, Ordering::SeqCst);
    }

    /// Was the cut made?
    pub fn is_done(&self) -> bool {
        *self.state.cut.lock().unwrap() == Cut::Nothing
    }
}

/// The message that commits, as the driver sends it.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";

/// The server's answer to it.
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";

fn pass(state: &State, mut client: TcpStream) {
    let Ok(mut server) = TcpStream::connect(state.server) else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let swallow = Arc::new(AtomicBool::new(false));
    let back = {
        let (client, server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        let swallow = Arc::clone(&swallow);
        std::thread::spawn(move || pass_back(server, client, &swallow))
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
        let cut = std::mem::replace(&mut *state.cut.lock().unwrap(), Cut::Nothing);
        if cut != Cut::Nothing && state.close_with_cut.load(Ordering::SeqCst) {
            state.closed.store(true, Ordering::SeqCst);
        }
        let passed = match cut {
            Cut::Nothing => {
                if server.write_all(sent).is_err() {
                    break;
                }
                continue;
            }
            Cut::BeforeCommit | Cut::Silence => &sent[..at],
            Cut::Between => &sent[..at / 2],
            Cut::BeforeAnswer => {
                swallow.store(true, Ordering::SeqCst);
                sent
            }
        };
        let _ = server.write_all(passed);
        match cut {
            // The other thread cuts when it has seen the answer.
            Cut::BeforeAnswer => drop(back.join()),
            Cut::Silence => {
                // Until the client gives up.
                while matches!(client.read(&mut buffer), Ok(1..)) {}
                // The server does not notice that.
                std::mem::forget(server);
                return;
            }
            Cut::Nothing | Cut::BeforeCommit | Cut::Between => {}
        }
        break;
    }
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

fn pass_back(mut server: TcpStream, mut client: TcpStream, swallow: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    let mut swallowed = Vec::new();
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        if swallow.load(Ordering::SeqCst) {
            swallowed.extend_from_slice(&buffer[..length]);
            if swallowed
                .windows(COMMITTED.len())
                .any(|window| window == COMMITTED)
            {
                break;
            }
        } else if client.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    if !swallow.load(Ordering::SeqCst) {
        let _ = client.shutdown(Shutdown::Both);
    }
}
