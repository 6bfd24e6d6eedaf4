//! A TCP proxy that drops a connection when it sees given bytes.
//!
//! It simulates failures that fault points cannot: the network fails before a statement arrives, or
//! after it arrived and before its response is back.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

/// When the connection is dropped, relative to the trigger bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutMoment {
    /// The trigger bytes never reach the server.
    BeforeRequest,
    /// The server gets the trigger and answers with these bytes; nothing after the trigger is
    /// returned.
    AfterAnswer(&'static [u8]),
}

/// What happens to other and later connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAftermath {
    /// They work.
    Restored,
    /// They are closed on use, until [`CuttingProxy::restore`].
    Unreachable,
}

/// A proxy for a server. Dropping it closes every connection through it.
pub struct CuttingProxy {
    address: SocketAddr,
    state: Arc<ProxyState>,
}

#[derive(Default)]
struct ProxyState {
    planned_cut: Mutex<Option<PlannedCut>>,
    unreachable: AtomicBool,
    closing: AtomicBool,
    cut_count: Mutex<u32>,
    open_streams: Mutex<Vec<TcpStream>>,
}

#[derive(Clone)]
struct PlannedCut {
    trigger: Vec<u8>,
    moment: CutMoment,
    aftermath: CutAftermath,
}

impl CuttingProxy {
    pub fn for_address(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(ProxyState::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.closing.load(Ordering::SeqCst) {
                    return;
                }
                if !shared.unreachable.load(Ordering::SeqCst) {
                    forward_connection(client, server, &shared);
                }
            }
        });
        Self { address, state }
    }

    /// Returns a proxy for the server of this PostgreSQL URL, and the URL through it.
    pub fn for_url(url: &str) -> (Self, String) {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, server) = match authority.rsplit_once('@') {
            Some((user, server)) => (format!("{user}@"), server),
            None => (String::new(), authority),
        };
        let proxy = Self::for_address(server.parse().unwrap());
        let proxied_url = format!("{scheme}://{user}{}/{path}", proxy.address);
        (proxy, proxied_url)
    }

    /// Drops the next connection on which the client sends these bytes; once.
    pub fn cut_on_bytes(&self, bytes: &[u8], moment: CutMoment, aftermath: CutAftermath) {
        *lock_mutex(&self.state.planned_cut) = Some(PlannedCut {
            trigger: bytes.to_vec(),
            moment,
            aftermath,
        });
    }

    /// Drops all current connections; later ones work.
    pub fn cut_all_connections(&self) {
        self.state.close_connections();
        *lock_mutex(&self.state.cut_count) += 1;
    }

    /// Forwards connections again.
    pub fn restore(&self) {
        self.state.unreachable.store(false, Ordering::SeqCst);
    }

    pub fn cut_count(&self) -> u32 {
        *lock_mutex(&self.state.cut_count)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees the stop flag.
        drop(TcpStream::connect(self.address));
        self.state.close_connections();
    }
}

impl ProxyState {
    /// Takes the planned cut if the bytes sent so far trigger it and the last `fresh` of them are
    /// part of the trigger.
    fn take_triggered_cut(&self, sent: &[u8], fresh: usize) -> Option<PlannedCut> {
        let mut planned_cut = lock_mutex(&self.planned_cut);
        let cut = planned_cut.take_if(|cut| {
            let unchecked_from = (sent.len() - fresh).saturating_sub(cut.trigger.len() - 1);
            contains_bytes(&sent[unchecked_from..], &cut.trigger)
        })?;
        if cut.aftermath == CutAftermath::Unreachable {
            self.unreachable.store(true, Ordering::SeqCst);
        }
        *lock_mutex(&self.cut_count) += 1;
        Some(cut)
    }

    fn close_connections(&self) {
        for stream in lock_mutex(&self.open_streams).drain(..) {
            let _already_closed = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward_connection(client: TcpStream, server: SocketAddr, state: &Arc<ProxyState>) {
    let Ok(server) = TcpStream::connect(server) else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let copy = |stream: &TcpStream| stream.try_clone().unwrap();
    lock_mutex(&state.open_streams).extend([copy(&client), copy(&server)]);
    let awaited_answer = Arc::new(OnceLock::new());
    let (to_server, from_client) = (copy(&server), copy(&client));
    let (state, shared_answer) = (Arc::clone(state), Arc::clone(&awaited_answer));
    thread::spawn(move || forward_requests(from_client, to_server, &state, &shared_answer));
    thread::spawn(move || forward_answers(server, client, &awaited_answer));
}

/// The response to wait for after forwarding has stopped.
type AwaitedAnswer = OnceLock<&'static [u8]>;

fn forward_requests(
    mut client: TcpStream,
    mut server: TcpStream,
    state: &ProxyState,
    awaited_answer: &AwaitedAnswer,
) {
    let mut chunk = [0; 16 * 1024];
    let mut sent = Vec::new();
    while let Ok(length @ 1..) = client.read(&mut chunk) {
        // The trigger may be split between two reads.
        sent.extend_from_slice(&chunk[..length]);
        match state
            .take_triggered_cut(&sent, length)
            .map(|cut| cut.moment)
        {
            Some(CutMoment::BeforeRequest) => break,
            Some(CutMoment::AfterAnswer(answer)) => awaited_answer.set(answer).unwrap(),
            None => {}
        }
        keep_tail(&mut sent);
        let dead = state.unreachable.load(Ordering::SeqCst) && awaited_answer.get().is_none();
        if dead || server.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    close_both(&client, &server);
}

fn forward_answers(mut server: TcpStream, mut client: TcpStream, awaited_answer: &AwaitedAnswer) {
    let mut chunk = [0; 16 * 1024];
    let mut unforwarded = Vec::new();
    while let Ok(length @ 1..) = server.read(&mut chunk) {
        if let Some(answer) = awaited_answer.get() {
            unforwarded.extend_from_slice(&chunk[..length]);
            if contains_bytes(&unforwarded, answer) {
                break;
            }
            keep_tail(&mut unforwarded);
        } else if client.write_all(&chunk[..length]).is_err() {
            break;
        }
    }
    close_both(&client, &server);
}

fn contains_bytes(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn keep_tail(bytes: &mut Vec<u8>) {
    bytes.drain(..bytes.len().saturating_sub(256));
}

fn close_both(one: &TcpStream, other: &TcpStream) {
    for stream in [one, other] {
        let _already_closed = stream.shutdown(Shutdown::Both);
    }
}

fn lock_mutex<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that echoes every line.
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

    fn send_text(proxy: &CuttingProxy, text: &str) -> String {
        send_text_on(&mut TcpStream::connect(proxy.address).unwrap(), text)
    }

    fn send_text_on(stream: &mut TcpStream, text: &str) -> String {
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = vec![0; text.len()];
        match stream.read_exact(&mut answer) {
            Ok(()) => String::from_utf8(answer).unwrap(),
            Err(_) => "cut".to_owned(),
        }
    }

    #[test]
    fn a_connection_is_cut_once_and_the_next_one_works() {
        for moment in [CutMoment::BeforeRequest, CutMoment::AfterAnswer(b"now")] {
            let proxy = CuttingProxy::for_address(echo_server());
            let mut stream = TcpStream::connect(proxy.address).unwrap();
            assert_eq!(
                send_text_on(&mut stream, "now"),
                "now",
                "no cut is planned yet"
            );
            proxy.cut_on_bytes(b"now", moment, CutAftermath::Restored);
            assert_eq!(send_text_on(&mut stream, "hello"), "hello");
            assert_eq!(send_text(&proxy, "cut now"), "cut");
            assert_eq!(send_text(&proxy, "cut now"), "cut now");
            assert_eq!(proxy.cut_count(), 1);
        }
    }

    #[test]
    fn an_unreachable_server_stays_unreachable_until_restored() {
        let proxy = CuttingProxy::for_address(echo_server());
        proxy.cut_on_bytes(
            b"now",
            CutMoment::AfterAnswer(b"now"),
            CutAftermath::Unreachable,
        );
        assert_eq!(send_text(&proxy, "now"), "cut");
        assert_eq!(send_text(&proxy, "hello"), "cut");
        proxy.restore();
        assert_eq!(send_text(&proxy, "hello"), "hello");
    }
}
