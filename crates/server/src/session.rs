//! Sessions of browsers, and the one-time codes that start them.
//!
//! Both are private files in the home, so that they survive a restart, work with every server of this home, and are
//! out of reach of confined agents. A file holds only the hash of a secret.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plan::{Span, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use store::Clock;
use utoipa::ToSchema;

/// How long a code can be exchanged.
const CODE_LIFETIME: Span = Span::from_seconds(60);

/// How long a session lasts.
const SESSION_LIFETIME: Span = Span::from_seconds(30 * 24 * 3600);

/// The most sessions of one home. The oldest ends when another one starts.
const MAX_SESSIONS: usize = 64;

const SECRET_BYTES: usize = 32;
const SESSION_ID_BYTES: usize = 8;
const MAX_BROWSER_NAME_LENGTH: usize = 200;

/// A secret that starts one session.
pub struct EntryCode(String);

impl EntryCode {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The sessions of one home.
#[derive(Clone)]
pub struct SessionStore {
    directory: PathBuf,
    clock: Clock,
}

/// A session, as its file holds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionRecord {
    secret_hash: String,
    created_at: Timestamp,
    /// The server's port. The browser keeps secrets by port, and another program may listen on an old one.
    port: u16,
    browser: String,
}

/// A session, without its secret.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct SessionView {
    pub session_id: String,
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    #[schema(value_type = String)]
    pub expires_at: Timestamp,
    /// What the browser calls itself.
    pub browser: String,
    /// The session that asks.
    pub current: bool,
}

/// A started session. The secret is sent with every request and never shown again.
#[derive(Debug, Serialize, ToSchema)]
pub struct StartedSession {
    pub session_id: String,
    /// The value of the `Planwright-Session` header.
    pub secret: String,
}

impl SessionStore {
    /// Keeps sessions below this directory, which is created when it is needed.
    pub fn new(directory: &Path, clock: Clock) -> Self {
        Self {
            directory: directory.to_owned(),
            clock,
        }
    }

    /// Makes a code. The first client that presents it within a minute gets a session.
    pub fn issue_code(&self) -> io::Result<EntryCode> {
        let codes = self.codes_directory();
        create_private_directory(&codes)?;
        self.remove_expired_codes(&codes);
        let code = random_hex::<SECRET_BYTES>()?;
        let issued_at = self.clock.now().0.to_string();
        write_new_private_file(&codes.join(hash_hex(&code)), &issued_at)?;
        Ok(EntryCode(code))
    }

    /// Starts a session if the code is valid. A code works once.
    pub fn start_session(
        &self,
        code: &str,
        port: u16,
        browser: &str,
    ) -> io::Result<Option<StartedSession>> {
        // The file's name is the hash, so finding it does not compare secrets.
        let file = self.codes_directory().join(hash_hex(code));
        let Some(issued_at) = read_if_exists(&file)? else {
            return Ok(None);
        };
        // Of concurrent exchanges, the one that removes the file wins.
        match fs::remove_file(&file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            removed => removed?,
        }
        if !issued_at.parse().is_ok_and(|at| self.is_recent(at)) {
            return Ok(None);
        }
        let sessions = self.sessions_directory();
        create_private_directory(&sessions)?;
        self.end_surplus_sessions()?;
        let session_id = random_hex::<SESSION_ID_BYTES>()?;
        let secret = random_hex::<SECRET_BYTES>()?;
        let record = SessionRecord {
            secret_hash: hash_hex(&secret),
            created_at: self.clock.now(),
            port,
            browser: browser
                .chars()
                .filter(|letter| !letter.is_control())
                .take(MAX_BROWSER_NAME_LENGTH)
                .collect(),
        };
        let text = serde_json::to_string(&record).map_err(io::Error::other)?;
        write_new_private_file(&sessions.join(&session_id), &text)?;
        Ok(Some(StartedSession {
            secret: format!("{session_id}.{secret}"),
            session_id,
        }))
    }

    /// Finds the session that a `Planwright-Session` header belongs to.
    pub fn authenticate(&self, header: &str, port: u16) -> io::Result<Option<String>> {
        let Some((session_id, secret)) = header.split_once('.') else {
            return Ok(None);
        };
        let Some(record) = self.read_session(session_id)? else {
            return Ok(None);
        };
        let is_valid = is_equal_in_constant_time(&record.secret_hash, &hash_hex(secret))
            && record.port == port
            && self.clock.now() < self.expiry(&record);
        Ok(is_valid.then(|| session_id.to_owned()))
    }

    /// Lists the sessions, newest first.
    pub fn list_sessions(&self, current: &str) -> io::Result<Vec<SessionView>> {
        let mut views = Vec::new();
        for session_id in self.session_ids()? {
            let Some(record) = self.read_session(&session_id)? else {
                continue;
            };
            views.push(SessionView {
                current: session_id == current,
                session_id,
                created_at: record.created_at,
                expires_at: self.expiry(&record),
                browser: record.browser,
            });
        }
        views.sort_by_key(|view| std::cmp::Reverse(view.created_at));
        Ok(views)
    }

    /// Ends a session. Returns whether it existed.
    pub fn end_session(&self, session_id: &str) -> io::Result<bool> {
        if !is_session_id(session_id) {
            return Ok(false);
        }
        match fs::remove_file(self.sessions_directory().join(session_id)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn codes_directory(&self) -> PathBuf {
        self.directory.join("codes")
    }

    fn sessions_directory(&self) -> PathBuf {
        self.directory.join("sessions")
    }

    fn expiry(&self, record: &SessionRecord) -> Timestamp {
        Timestamp(record.created_at.0.saturating_add(SESSION_LIFETIME.0))
    }

    fn is_recent(&self, issued_at: i64) -> bool {
        let age = self.clock.now().0.saturating_sub(issued_at);
        (0..=CODE_LIFETIME.0).contains(&age)
    }

    fn remove_expired_codes(&self, codes: &Path) {
        // Best effort: an expired code is refused anyway.
        for entry in fs::read_dir(codes).into_iter().flatten().flatten() {
            let issued_at = fs::read_to_string(entry.path()).unwrap_or_default();
            if !issued_at.parse().is_ok_and(|at| self.is_recent(at)) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn end_surplus_sessions(&self) -> io::Result<()> {
        let views = self.list_sessions("")?;
        for surplus in views.iter().skip(MAX_SESSIONS - 1) {
            self.end_session(&surplus.session_id)?;
        }
        Ok(())
    }

    fn session_ids(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(self.sessions_directory()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().unwrap_or_default()));
        let names: io::Result<Vec<String>> = names.collect();
        Ok(names?.into_iter().filter(|id| is_session_id(id)).collect())
    }

    fn read_session(&self, session_id: &str) -> io::Result<Option<SessionRecord>> {
        if !is_session_id(session_id) {
            return Ok(None);
        }
        let text = read_if_exists(&self.sessions_directory().join(session_id))?;
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }
}

/// Ids are file names, so nothing else may reach the file system.
fn is_session_id(text: &str) -> bool {
    text.len() == 2 * SESSION_ID_BYTES
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn is_equal_in_constant_time(one: &str, other: &str) -> bool {
    one.len() == other.len()
        && one
            .bytes()
            .zip(other.bytes())
            .fold(0, |difference, (a, b)| difference | (a ^ b))
            == 0
}

fn hash_hex(secret: &str) -> String {
    to_hex(&Sha256::digest(secret.as_bytes()))
}

fn random_hex<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(to_hex(&bytes))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn create_private_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn write_new_private_file(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::File::options();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn read_if_exists(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    const START: i64 = 1_700_000_000_000_000;

    fn sessions_at(now: &Arc<AtomicI64>) -> (tempfile::TempDir, SessionStore) {
        let directory = tempfile::tempdir().unwrap();
        let now = Arc::clone(now);
        let clock = Clock::new(move || Timestamp(now.load(Ordering::Relaxed)));
        let sessions = SessionStore::new(directory.path(), clock);
        (directory, sessions)
    }

    #[test]
    fn code_starts_exactly_one_session() {
        let (_directory, sessions) = sessions_at(&Arc::new(AtomicI64::new(START)));
        let code = sessions.issue_code().unwrap();
        let started = sessions
            .start_session(code.as_str(), 1, "")
            .unwrap()
            .unwrap();
        assert!(
            sessions
                .start_session(code.as_str(), 1, "")
                .unwrap()
                .is_none()
        );
        let found = sessions.authenticate(&started.secret, 1).unwrap();
        assert_eq!(found, Some(started.session_id));
    }

    #[test]
    fn code_expires_after_a_minute() {
        let now = Arc::new(AtomicI64::new(START));
        let (_directory, sessions) = sessions_at(&now);
        let code = sessions.issue_code().unwrap();
        now.store(START + CODE_LIFETIME.0 + 1, Ordering::Relaxed);
        assert!(
            sessions
                .start_session(code.as_str(), 1, "")
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn session_is_refused_with_another_secret_or_port_after_its_end_and_when_it_expired() {
        let now = Arc::new(AtomicI64::new(START));
        let (_directory, sessions) = sessions_at(&now);
        let code = sessions.issue_code().unwrap();
        let started = sessions
            .start_session(code.as_str(), 1, "")
            .unwrap()
            .unwrap();
        let check = |header: &str, port| sessions.authenticate(header, port).unwrap().is_some();
        assert!(check(&started.secret, 1));
        assert!(!check(&started.secret, 2));
        assert!(!check(
            &format!("{}.{}", started.session_id, "0".repeat(64)),
            1
        ));
        assert!(!check(&started.session_id, 1));
        assert!(!check("../codes.x", 1));
        now.store(START + SESSION_LIFETIME.0, Ordering::Relaxed);
        assert!(!check(&started.secret, 1));
        now.store(START, Ordering::Relaxed);
        assert!(sessions.end_session(&started.session_id).unwrap());
        assert!(!check(&started.secret, 1));
        assert!(!sessions.end_session("../../secret").unwrap());
    }

    #[test]
    fn files_hold_no_secret() {
        let (directory, sessions) = sessions_at(&Arc::new(AtomicI64::new(START)));
        let code = sessions.issue_code().unwrap();
        let unused = sessions.issue_code().unwrap();
        let started = sessions
            .start_session(code.as_str(), 1, "")
            .unwrap()
            .unwrap();
        let secret = started.secret.split_once('.').unwrap().1;
        for part in ["codes", "sessions"] {
            for entry in fs::read_dir(directory.path().join(part)).unwrap() {
                let path = entry.unwrap().path();
                let text = fs::read_to_string(&path).unwrap() + path.to_str().unwrap();
                assert!(!text.contains(secret) && !text.contains(unused.as_str()));
            }
        }
    }
}
