//! A small HTTP client for tests. It sends exactly the bytes that a test wants, right or wrong.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long a test waits for an answer. Tests that expect silence use a shorter time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A client of one server, with or without a session.
#[derive(Debug, Clone)]
pub struct HttpClient {
    pub address: SocketAddr,
    /// The secret of the session.
    pub session: Option<String>,
}

/// An answer to a request.
#[derive(Debug)]
pub struct HttpAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl HttpAnswer {
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_str(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("not JSON ({error}): {self:?}"),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        find_header(&self.head, name)
    }

    /// Returns the body if the request succeeded.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Returns the kind of the problem, after checking the status.
    #[track_caller]
    pub fn problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        let content_type = self.header("content-type");
        assert_eq!(content_type, Some("application/problem+json"), "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], status, "{self:?}");
        assert!(problem["exit_code"].is_u64(), "{self:?}");
        problem["kind"].as_str().unwrap().to_owned()
    }
}

impl HttpClient {
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            session: None,
        }
    }

    /// Sends a request with these headers, besides `Host` and the session.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpAnswer {
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            head.push_str(&format!("host: {}\r\n", self.address));
        }
        if let Some(session) = &self.session {
            head.push_str(&format!("planwright-session: {session}\r\n"));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            head.push_str(&format!("content-length: {}\r\n", body.len()));
        }
        self.send_bytes(format!("{head}\r\n{body}").as_bytes())
    }

    pub fn get(&self, path: &str) -> HttpAnswer {
        self.request("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> HttpAnswer {
        self.post_with(path, &[], body)
    }

    /// Posts JSON with more headers, such as `if-match`.
    pub fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> HttpAnswer {
        let json = [("content-type", "application/json")];
        self.request(
            "POST",
            path,
            &[&json[..], headers].concat(),
            &body.to_string(),
        )
    }

    /// Sends bytes as they are and reads the answer up to its end.
    pub fn send_bytes(&self, bytes: &[u8]) -> HttpAnswer {
        let mut stream = self.connect();
        // The server may answer and close before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let mut bytes = [0; 16 * 1024];
        // Some servers keep the connection open.
        while !is_complete(&answer) {
            match stream.read(&mut bytes) {
                Ok(count @ 1..) => answer.extend_from_slice(&bytes[..count]),
                Ok(0) | Err(_) => break,
            }
        }
        let text = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        HttpAnswer {
            status: status.unwrap_or_default(),
            body: match find_header(head, "transfer-encoding") {
                Some(_) => join_chunks(body),
                None => body.to_owned(),
            },
            head: head.to_owned(),
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
        stream
    }

    /// Follows an event stream, after the event with this id.
    pub fn follow_events(&self, path: &str, last_event_id: Option<&str>) -> EventReader {
        let mut stream = self.connect();
        // HTTP/1.0 has no chunks, so the lines of the stream arrive as they are.
        let mut head = format!("GET {path} HTTP/1.0\r\nhost: {}\r\n", self.address);
        if let Some(session) = &self.session {
            head.push_str(&format!("planwright-session: {session}\r\n"));
        }
        if let Some(id) = last_event_id {
            head.push_str(&format!("last-event-id: {id}\r\n"));
        }
        write!(stream, "{head}\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut status = String::new();
        lines.read_line(&mut status).unwrap();
        assert!(status.contains(" 200 "), "{status}");
        let mut line = status;
        while line != "\r\n" {
            line.clear();
            assert_ne!(
                lines.read_line(&mut line).unwrap(),
                0,
                "the answer has no end of headers"
            );
        }
        EventReader { lines }
    }
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct SentEvent {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

/// Reads server-sent events.
pub struct EventReader {
    lines: BufReader<TcpStream>,
}

impl EventReader {
    /// Waits for the next event. `None` means that the stream ended.
    pub fn next_event(&mut self) -> Option<SentEvent> {
        let mut event = SentEvent {
            id: String::new(),
            kind: String::new(),
            data: Value::Null,
        };
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
            let Some((field, value)) = line.trim_end().split_once(": ") else {
                if event.kind.is_empty() {
                    continue;
                }
                return Some(event);
            };
            match field {
                "id" => value.clone_into(&mut event.id),
                "event" => value.clone_into(&mut event.kind),
                // An event that a kill cut in half is not an event.
                "data" => event.data = serde_json::from_str(value).ok()?,
                _ => {}
            }
        }
    }
}

/// Returns whether an answer with a stated length has arrived as a whole.
fn is_complete(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, _)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = find_header(head, "content-length").and_then(|length| length.parse().ok());
    length.is_some_and(|length: usize| answer.len() >= head.len() + 4 + length)
}

fn find_header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

fn join_chunks(mut body: &str) -> String {
    let mut joined = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        let Some(chunk) = rest.get(..length).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        joined.push_str(chunk);
        body = rest[length..].trim_start_matches("\r\n");
    }
    joined
}
