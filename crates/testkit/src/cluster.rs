//! A private PostgreSQL server for tests that restart, crash or reconfigure it.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use tempfile::TempDir;

/// A cluster in a temporary directory. Stopped when dropped.
pub struct PostgresCluster {
    programs: PathBuf,
    directory: PathBuf,
    port: u16,
    /// A shell that waits for a pipe from this process to close, which happens however this process
    /// ends. It then stops the server and removes the directory.
    guard: Child,
}

/// The script of the guard: `$1` is the directory of PostgreSQL's programs, `$2` the cluster's.
const GUARD_SCRIPT: &str = "trap '' HUP INT TERM
cat > /dev/null
\"$1/pg_ctl\" -D \"$2/data\" -m immediate -w stop
rm -rf \"$2\"";

impl PostgresCluster {
    /// Creates and starts a cluster that trusts all connections.
    pub fn start() -> Self {
        let mut cluster = Self::create();
        cluster.start_server();
        cluster
    }

    /// Creates a cluster without starting it.
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

    pub fn append_settings(&self, settings: &str) {
        let file = Path::new(&self.data_directory()).join("postgresql.conf");
        let mut file = fs::OpenOptions::new().append(true).open(file).unwrap();
        file.write_all(settings.as_bytes()).unwrap();
    }

    /// Writes a file that only the server's account can read.
    pub fn write_file(&self, name: &str, content: &[u8]) -> PathBuf {
        let file = Path::new(&self.data_directory()).join(name);
        fs::write(&file, content).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        if let Some((uid, gid)) = server_account() {
            chown(&file, Some(uid), Some(gid)).unwrap();
        }
        file
    }

    pub fn start_server(&mut self) {
        let log = self.directory.join("log").display().to_string();
        self.run_checked(
            "pg_ctl",
            &["-D", &self.data_directory(), "-l", &log, "-w", "start"],
        );
    }

    /// Stops the server and disconnects its clients cleanly.
    pub fn stop_server(&mut self) {
        self.run_checked(
            "pg_ctl",
            &["-D", &self.data_directory(), "-m", "fast", "-w", "stop"],
        );
    }

    /// Stops the server as a crash would, and starts it again.
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

    /// Stops the server cleanly and starts it again.
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

    /// The URL for the superuser.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// The port on 127.0.0.1.
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
        // The server inherits this output; a pipe would stay open as long as the server runs.
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
        // Closes the pipe first, so that the guard ends.
        let _stopped = self.guard.wait();
    }
}

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

/// Builds a command that runs under the server's account, in its own process group so that Ctrl-C
/// does not reach it.
#[expect(clippy::disallowed_methods, reason = "only tests start a server")]
fn server_command(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.process_group(0);
    if let Some((uid, gid)) = server_account() {
        command.uid(uid).gid(gid);
    }
    command
}

/// Returns the directory of PostgreSQL's programs.
#[expect(
    clippy::disallowed_methods,
    reason = "`cargo xtask test` sets this variable"
)]
pub fn postgres_programs() -> PathBuf {
    std::env::var_os("PLANWRIGHT_TEST_PGBIN")
        .expect("PLANWRIGHT_TEST_PGBIN is not set: run `cargo xtask test`, which finds PostgreSQL's programs")
        .into()
}

/// Returns the account for the server if we are root, because PostgreSQL refuses to run as root.
fn server_account() -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    // Our own user id is the owner of a file we create.
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
