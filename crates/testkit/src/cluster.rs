//! A PostgreSQL server of one's own, to be restarted, crashed, locked up or given certificates.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A cluster under a temporary directory. Stopped at the end.
pub struct PostgresCluster {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
    /// A shell that waits for a pipe of ours to close, which it does however we end, and then stops the server and
    /// removes its directory.
    guard: Child,
}

/// What the guard does: `$1` is where PostgreSQL's programs are, `$2` the directory.
const GUARD_SCRIPT: &str = "trap '' HUP INT TERM
cat > /dev/null
\"$1/pg_ctl\" -D \"$2/data\" -m immediate -w stop
rm -rf \"$2\"";

impl PostgresCluster {
    /// Makes a cluster that trusts everybody, and starts it.
    pub fn start() -> Self {
        let mut cluster = Self::create();
        cluster.start_server();
        cluster
    }

    /// Makes a cluster without starting it.
    pub fn create() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("planwright-cluster-")
            .tempdir()
            .unwrap();
        if let Some((uid, gid)) = server_account() {
            chown(directory.path(), Some(uid), Some(gid)).unwrap();
        }
        let programs = postgres_programs();
        let guard = start_guard(&programs, &directory);
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let cluster = Self {
            programs,
            directory: directory.keep(),
            port,
            guard,
        };
        let data = cluster.data_directory();
        cluster.run_checked(
            "initdb",
            &[
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "--no-sync",
                "-D",
                &data,
            ],
        );
        cluster.append_settings(&format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = '{}'\nfsync = off\n",
            cluster.directory.display()
        ));
        cluster
    }

    /// Adds to its settings.
    pub fn append_settings(&self, settings: &str) {
        let file = Path::new(&self.data_directory()).join("postgresql.conf");
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(settings.as_bytes()).unwrap();
    }

    /// Writes a file that belongs to the server and nobody else.
    pub fn write_file(&self, name: &str, content: &[u8]) -> PathBuf {
        let file = Path::new(&self.data_directory()).join(name);
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((uid, gid)) = server_account() {
            chown(&file, Some(uid), Some(gid)).unwrap();
        }
        file
    }

    /// Starts it.
    pub fn start_server(&mut self) {
        let log = self.directory.join("log").display().to_string();
        self.run_checked(
            "pg_ctl",
            &["-D", &self.data_directory(), "-l", &log, "-w", "start"],
        );
    }

    /// Stops it, after word to those connected.
    pub fn stop_server(&mut self) {
        self.run_checked(
            "pg_ctl",
            &["-D", &self.data_directory(), "-m", "fast", "-w", "stop"],
        );
    }

    /// Ends it as a crash would, and starts it again.
    pub fn crash_and_restart(&mut self) {
        self.run_checked(
            "pg_ctl",
            &[
                "-D",
                &self.data_directory(),
                "-m",
                "immediate",
                "-w",
                "stop",
            ],
        );
        self.start_server();
    }

    /// Stops it, after word to those connected, and starts it again.
    pub fn restart(&mut self) {
        let log = self.directory.join("log").display().to_string();
        self.run_checked(
            "pg_ctl",
            &[
                "-D",
                &self.data_directory(),
                "-l",
                &log,
                "-m",
                "fast",
                "-w",
                "restart",
            ],
        );
    }

    /// Its URL for the superuser.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn data_directory(&self) -> String {
        self.directory.join("data").display().to_string()
    }

    fn run_checked(&self, program: &str, arguments: &[&str]) {
        let output = self.run_program(program, arguments);
        assert!(
            output.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn run_program(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = server_command(&self.programs.join(program));
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env("LC_ALL", "C");
        // The server inherits what it writes to; a pipe would stay open as long as it runs.
        let errors = self.directory.join("errors");
        command
            .stdout(Stdio::null())
            .stderr(fs::File::create(&errors).unwrap());
        let status = command.status().unwrap();
        Output {
            status,
            stdout: Vec::new(),
            stderr: fs::read(errors).unwrap(),
        }
    }
}

impl Drop for PostgresCluster {
    fn drop(&mut self) {
        // Closes the pipe first.
        let _stopped = self.guard.wait();
    }
}

/// Starts the guard of a cluster.
fn start_guard(programs: &Path, directory: &TempDir) -> Child {
    server_command(Path::new("sh"))
        .args(["-c", GUARD_SCRIPT, "guard"])
        .args([programs, directory.path()])
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// A program that runs under the account of the server. Ctrl-C is not for it.
#[expect(
    clippy::disallowed_methods,
    reason = "a server for a test is no business of the product"
)]
fn server_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.process_group(0);
    if let Some((uid, gid)) = server_account() {
        command.uid(uid).gid(gid);
    }
    command
}

/// Where PostgreSQL's programs are.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are told so by `cargo xtask test`"
)]
pub fn postgres_programs() -> PathBuf {
    std::env::var_os("PLANWRIGHT_TEST_PGBIN")
        .expect("PLANWRIGHT_TEST_PGBIN is not set: run `cargo xtask test`, which finds PostgreSQL's programs")
        .into()
}

/// The account a server may run under if we are root, under which it refuses to.
fn server_account() -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    // Who we are is who owns a file we make.
    let probe = tempfile::tempfile().unwrap();
    if probe.metadata().unwrap().uid() != 0 {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let find_account = |name: &str| {
        let line = accounts
            .lines()
            .find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = line.split(':').skip(2).map(str::parse::<u32>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    find_account("postgres").or_else(|| find_account("nobody"))
}
