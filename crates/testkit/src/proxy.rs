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
pub enum CutMoment {
    /// They never reach the server.
    BeforeRequest,
    /// The server got them and said these in turn; from the trigger on, nothing comes back.
    AfterAnswer(&'static [u8]),
}

/// What becomes of the other connections, and of those made later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutAftermath {
    /// They work.
    Restored,
    /// They are hung up on when they are used, until [`CuttingProxy::mend`].
    Unreachable,
}

/// A proxy in front of a server. Dropping it ends every connection through it.
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
    /// A proxy in front of the server at this address.
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

    /// A proxy in front of the server of this PostgreSQL URL, and the URL through it.
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

    /// Cuts the next connection on which the client sends these bytes; once.
    pub fn cut_on_bytes(&self, bytes: &[u8], moment: CutMoment, aftermath: CutAftermath) {
        *lock_mutex(&self.state.planned_cut) = Some(PlannedCut {
            trigger: bytes.to_vec(),
            moment,
            aftermath,
        });
    }

    /// Cuts every connection there is, wherever it stands; later ones work.
    pub fn cut_all_connections(&self) {
        self.state.close_connections();
        *lock_mutex(&self.state.cut_count) += 1;
    }

    /// Lets connections through again.
    pub fn restore(&self) {
        self.state.unreachable.store(false, Ordering::SeqCst);
    }

    /// How often it cut.
    pub fn cut_count(&self) -> u32 {
        *lock_mutex(&self.state.cut_count)
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.state.closing.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is over.
        drop(TcpStream::connect(self.address));
        self.state.close_connections();
    }
}

impl ProxyState {
    /// The cut that what was sent triggers, if the last `fresh` bytes of it are part of why; it is
    /// taken.
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

/// What the server is still listened to for, once nothing is passed on any more.
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
        // What triggers may be torn between two reads.
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
                "nothing was said of cutting yet"
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
