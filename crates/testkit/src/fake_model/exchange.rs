//! One HTTP/1.1 request and its answer. Every connection is closed after its answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// How long an agent may take to send its request.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_BODY_BYTES: u64 = 64 << 20;
const MAX_LINE_BYTES: u64 = 64 << 10;

pub(super) struct ModelRequest {
    pub(super) method: String,
    /// With its query.
    pub(super) path: String,
    pub(super) body: Value,
}

/// Reads a request. The inner error says what is wrong with it, for the client.
pub(super) fn read_model_request(
    client: &mut TcpStream,
) -> std::io::Result<Result<ModelRequest, String>> {
    client.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut reader = BufReader::new(client);
    let first = read_header_line(&mut reader)?;
    let mut words = first.split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Ok(Err(format!("not a request: {first}")));
    };
    let (mut length, mut is_chunked, mut encoding) = (0, false, None);
    loop {
        let line = read_header_line(&mut reader)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        match (name.to_ascii_lowercase().as_str(), value.trim()) {
            ("content-length", value) => length = value.parse().unwrap_or(0),
            ("transfer-encoding", value) => is_chunked = value.contains("chunked"),
            ("content-encoding", value) => encoding = Some(value.to_owned()),
            _ => {}
        }
    }
    let bytes = match is_chunked {
        true => read_chunks(&mut reader)?,
        false => read_bytes(&mut reader, length)?,
    };
    if let Some(encoding) = encoding.filter(|encoding| encoding != "identity") {
        return Ok(Err(format!("bodies in {encoding} are not supported")));
    }
    let body = match bytes.is_empty() {
        true => Value::Null,
        false => match serde_json::from_slice(&bytes) {
            Ok(body) => body,
            Err(error) => return Ok(Err(format!("the body is not JSON: {error}"))),
        },
    };
    Ok(Ok(ModelRequest {
        method: method.to_owned(),
        path: path.to_owned(),
        body,
    }))
}

fn read_header_line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    reader.take(MAX_LINE_BYTES).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn read_bytes(reader: &mut impl Read, length: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader
        .take(length.min(MAX_BODY_BYTES))
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn read_chunks(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let line = read_header_line(reader)?;
        let length = line.split(';').next().unwrap_or_default();
        let length = u64::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || bytes.len() as u64 + length > MAX_BODY_BYTES {
            return Ok(bytes);
        }
        bytes.extend(read_bytes(reader, length)?);
        read_header_line(reader)?;
    }
}

pub(super) fn write_json_answer(
    client: &mut TcpStream,
    status: u16,
    body: &Value,
) -> std::io::Result<()> {
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    write!(
        client,
        "HTTP/1.1 {status} Answer\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{body}",
        body.len()
    )?;
    client.shutdown(Shutdown::Write)
}

/// A server-sent event.
#[derive(Debug)]
pub(super) struct StreamEvent {
    name: Option<String>,
    data: String,
}

impl StreamEvent {
    pub(super) fn unnamed(data: &Value) -> Self {
        Self {
            name: None,
            data: data.to_string(),
        }
    }

    pub(super) fn named_by_type(data: &Value) -> Self {
        Self {
            name: data["type"].as_str().map(str::to_owned),
            data: data.to_string(),
        }
    }

    /// The end of a stream, where the data would not say so.
    pub(super) fn done() -> Self {
        Self {
            name: None,
            data: "[DONE]".to_owned(),
        }
    }

    fn to_text(&self) -> String {
        let name = self.name.as_ref();
        let name = name.map(|name| format!("event: {name}\n"));
        format!("{}data: {}\n\n", name.unwrap_or_default(), self.data)
    }
}

/// If the answer is cut, the connection is closed in the middle of it.
pub(super) fn write_stream_answer(
    client: &mut TcpStream,
    events: &[StreamEvent],
    is_cut: bool,
) -> std::io::Result<()> {
    client.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    )?;
    let text: String = events.iter().map(StreamEvent::to_text).collect();
    let end = match is_cut {
        true => text.floor_char_boundary(text.len() / 2),
        false => text.len(),
    };
    client.write_all(&text.as_bytes()[..end])?;
    client.shutdown(Shutdown::Write)
}

/// Answers nothing until the client gives up.
pub(super) fn wait_for_close(client: &mut TcpStream) -> std::io::Result<()> {
    client.set_read_timeout(None)?;
    let mut bytes = [0; 256];
    while client.read(&mut bytes)? > 0 {}
    Ok(())
}
