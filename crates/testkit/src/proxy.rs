//! A wire that can be cut: forwards TCP connections to a server until it sees given bytes.
//!
//! What it stands for are the failures no fault point can play: the network is gone before a
//! statement arrives, or after it arrived and before its answer is back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// When the wire is cut, seen from the bytes that trigger it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// They never reach the server.
    BeforeTheyArrive,
    /// The server got them and said these in turn; from the trigger on, nothing comes back.
    AfterTheAnswer(&'static [u8]),
}

/// What becomes of the other connections, and of those made later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Afterwards {
    /// They work.
    Mended,
    /// They are hung up on when they are used, until [`CuttingProxy::mend`].
    Dead,
}

/// A proxy in front of a server. Dropping it ends every connection through it.
pub struct CuttingProxy {
    address: SocketAddr,
    wire: Arc<Wire>,
}

#[derive(Default)]
struct Wire {
    cut: Mutex<Option<Cut>>,
    dead: AtomicBool,
    closing: AtomicBool,
    cuts: Mutex<u32>,
    open: Mutex<Vec<TcpStream>>,
}

#[derive(Clone)]
struct Cut {
    at: Vec<u8>,
    moment: Moment,
    afterwards: Afterwards,
}

impl CuttingProxy {
    /// A proxy in front of the server at this address.
    pub fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let wire = Arc::new(Wire::default());
        let shared = Arc::clone(&wire);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.closing.load(Ordering::SeqCst) {
                    return;
                }
                if !shared.dead.load(Ordering::SeqCst) {
                    connect(client, server, &shared);
                }
            }
        });
        Self { address, wire }
    }

    /// A proxy in front of the server of this PostgreSQL URL, and the URL through it.
    pub fn to_url(url: &str) -> (Self, String) {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (format!("{user}@"), server),
            None => (String::new(), authority),
        };
        let proxy = Self::to(server.parse().unwrap());
        let through = format!("{scheme}://{user}{}/{path}", proxy.address);
        (proxy, through)
    }

    /// Cuts the next connection on which the client sends these bytes; once.
    pub fn cut_at(&self, bytes: &[u8], moment: Moment, afterwards: Afterwards) {
        *locked(&self.wire.cut) = Some(Cut {
            at: bytes.to_vec(),
            moment,
            afterwards,
        });
    }

    /// Cuts every connection there is, wherever it stands; later ones work.
    pub fn cut_all(&self) {
        self.wire.hang_up();
        *locked(&self.wire.cuts) += 1;
    }

    /// Lets connections through again.
    pub fn mend(&self) {
        self.wire.dead.store(false, Ordering::SeqCst);
    }

    /// How often it cut.
    pub fn cuts(&self) -> u32 {
        *locked(&self.wire.cuts)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.wire.closing.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is over.
        drop(TcpStream::connect(self.address));
        self.wire.hang_up();
    }
}

impl Wire {
    /// The cut that what was sent triggers, if the last `fresh` bytes of it are part of why; it is
    /// taken.
    fn triggered(&self, sent: &[u8], fresh: usize) -> Option<Cut> {
        let mut armed = locked(&self.cut);
        let cut = armed.take_if(|cut| {
            let known = (sent.len() - fresh).saturating_sub(cut.at.len() - 1);
            holds(&sent[known..], &cut.at)
        })?;
        if cut.afterwards == Afterwards::Dead {
            self.dead.store(true, Ordering::SeqCst);
        }
        *locked(&self.cuts) += 1;
        Some(cut)
    }

    fn hang_up(&self) {
        for stream in locked(&self.open).drain(..) {
            let _already_closed = stream.shutdown(Shutdown::Both);
        }
    }
}

fn connect(client: TcpStream, server: SocketAddr, wire: &Arc<Wire>) {
    let Ok(server) = TcpStream::connect(server) else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let copy = |stream: &TcpStream| stream.try_clone().unwrap();
    locked(&wire.open).extend([copy(&client), copy(&server)]);
    let last_words = Arc::new(OnceLock::new());
    let (to_server, from_client) = (copy(&server), copy(&client));
    let (wire, told) = (Arc::clone(wire), Arc::clone(&last_words));
    thread::spawn(move || forward_requests(from_client, to_server, &wire, &told));
    thread::spawn(move || forward_answers(server, client, &last_words));
}

/// What the server is still listened to for, once nothing is passed on any more.
type LastWords = OnceLock<&'static [u8]>;

fn forward_requests(mut client: TcpStream, mut server: TcpStream, wire: &Wire, told: &LastWords) {
    let mut chunk = [0; 16 * 1024];
    let mut sent = Vec::new();
    while let Ok(length @ 1..) = client.read(&mut chunk) {
        // What triggers may be torn between two reads.
        sent.extend_from_slice(&chunk[..length]);
        match wire.triggered(&sent, length).map(|cut| cut.moment) {
            Some(Moment::BeforeTheyArrive) => break,
            Some(Moment::AfterTheAnswer(words)) => told.set(words).unwrap(),
            None => {}
        }
        forget_all_but_the_end(&mut sent);
        let dead = wire.dead.load(Ordering::SeqCst) && told.get().is_none();
        if dead || server.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    hang_up(&client, &server);
}

fn forward_answers(mut server: TcpStream, mut client: TcpStream, last_words: &LastWords) {
    let mut chunk = [0; 16 * 1024];
    let mut unheard = Vec::new();
    while let Ok(length @ 1..) = server.read(&mut chunk) {
        if let Some(words) = last_words.get() {
            unheard.extend_from_slice(&chunk[..length]);
            if holds(&unheard, words) {
                break;
            }
            forget_all_but_the_end(&mut unheard);
        } else if client.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    hang_up(&client, &server);
}

fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn forget_all_but_the_end(bytes: &mut Vec<u8>) {
    bytes.drain(..bytes.len().saturating_sub(256));
}

fn hang_up(one: &TcpStream, other: &TcpStream) {
    for stream in [one, other] {
        let _already_closed = stream.shutdown(Shutdown::Both);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers every line with the line.
    fn echo_server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let mut stream = stream;
                    let mut chunk = [0; 1024];
                    while let Ok(length @ 1..) = stream.read(&mut chunk) {
                        let _ = stream.write_all(&chunk[..length]);
                    }
                });
            }
        });
        address
    }

    fn ask(proxy: &CuttingProxy, text: &str) -> String {
        ask_on(&mut TcpStream::connect(proxy.address).unwrap(), text)
    }

    fn ask_on(stream: &mut TcpStream, text: &str) -> String {
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = vec![0; text.len()];
        match stream.read_exact(&mut answer) {
            Ok(()) => String::from_utf8(answer).unwrap(),
            Err(_) => "cut".to_owned(),
        }
    }

    #[test]
    fn a_wire_is_cut_once_and_works_again() {
        for moment in [Moment::BeforeTheyArrive, Moment::AfterTheAnswer(b"now")] {
            let proxy = CuttingProxy::to(echo_server());
            let mut stream = TcpStream::connect(proxy.address).unwrap();
            assert_eq!(
                ask_on(&mut stream, "now"),
                "now",
                "nothing was said of cutting yet"
            );
            proxy.cut_at(b"now", moment, Afterwards::Mended);
            assert_eq!(ask_on(&mut stream, "hello"), "hello");
            assert_eq!(ask(&proxy, "cut now"), "cut");
            assert_eq!(ask(&proxy, "cut now"), "cut now");
            assert_eq!(proxy.cuts(), 1);
        }
    }

    #[test]
    fn a_dead_wire_stays_dead_until_mended() {
        let proxy = CuttingProxy::to(echo_server());
        proxy.cut_at(b"now", Moment::AfterTheAnswer(b"now"), Afterwards::Dead);
        assert_eq!(ask(&proxy, "now"), "cut");
        assert_eq!(ask(&proxy, "hello"), "cut");
        proxy.mend();
        assert_eq!(ask(&proxy, "hello"), "hello");
    }
}
