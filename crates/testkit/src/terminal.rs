//! Runs the program under test on a real pty, with typed input and captured output.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, Winsize, tcgetattr, tcsetattr, tcsetwinsize};

use crate::TestRun;

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// The size of a test's terminal, in characters.
#[derive(Debug, Clone, Copy)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

impl Default for TerminalSize {
    /// Wide enough for most lines to stay whole.
    fn default() -> Self {
        Self {
            columns: 100,
            rows: 40,
        }
    }
}

/// A run on a terminal.
pub struct TestTerminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
    closed: Arc<AtomicBool>,
    read_position: usize,
}

impl TestRun {
    /// Starts the program on a terminal of the chosen size.
    pub fn start_on_terminal(&self) -> TestTerminal {
        // Not inherited: a terminal closes only when no process has it open.
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let size = Winsize {
            ws_row: self.terminal_size.rows,
            ws_col: self.terminal_size.columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&slave, size).unwrap();
        // Echo is off, so that the output does not depend on when input is typed.
        let mut modes = tcgetattr(&slave).unwrap();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&slave, OptionalActions::Now, &modes).unwrap();
        let end = || Stdio::from(slave.try_clone().unwrap());
        let mut command = self.command();
        command.stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        drop((command, slave));
        let mut output = File::from(master);
        let keyboard = output.try_clone().unwrap();
        let screen = Arc::new(Mutex::new(Vec::new()));
        let shown = Arc::clone(&screen);
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = Arc::clone(&closed);
        let reader = std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while !is_closed.load(Ordering::SeqCst) {
                let mut polled = [PollFd::new(&output, PollFlags::IN)];
                let moment = Timespec {
                    tv_sec: 0,
                    tv_nsec: 20_000_000,
                };
                if poll(&mut polled, Some(&moment)).unwrap() == 0 {
                    continue;
                }
                // Reading fails once no process has the terminal open.
                let Ok(count @ 1..) = output.read(&mut buffer) else {
                    break;
                };
                let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
                shown.extend(&buffer[..count]);
            }
        });
        TestTerminal {
            child,
            keyboard,
            screen,
            reader,
            closed,
            read_position: 0,
        }
    }
}

impl TestTerminal {
    /// Waits until this text appears after the text of the previous wait.
    #[track_caller]
    pub fn wait_for_text(&mut self, text: &str) -> &mut Self {
        let began = Instant::now();
        loop {
            let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
            let new = String::from_utf8_lossy(&screen[self.read_position..]).into_owned();
            drop(screen);
            if let Some(at) = new.find(text) {
                self.read_position += new[..at].len() + text.len();
                return self;
            }
            if began.elapsed() >= WAIT_TIMEOUT {
                let end = new.ceil_char_boundary(new.len().saturating_sub(2000));
                panic!("`{text}` does not appear: {}", &new[end..]);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn type_line(&mut self, line: &str) -> &mut Self {
        // Shown here, because the terminal does not echo.
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        screen.extend(format!("{line}\n").as_bytes());
        drop(screen);
        self.keyboard
            .write_all(format!("{line}\n").as_bytes())
            .unwrap();
        self
    }

    /// Sends an interrupt, as Ctrl-C does.
    pub fn send_interrupt(&self) {
        let number = i32::try_from(self.child.id()).unwrap();
        let process = rustix::process::Pid::from_raw(number).unwrap();
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    }

    /// Closes the terminal, as closing its window does. The program gets SIGHUP only if the
    /// terminal controls it: [`TestRun::with_own_session`].
    #[track_caller]
    pub fn close_and_wait(mut self) -> ExitStatus {
        self.closed.store(true, Ordering::SeqCst);
        self.reader.join().unwrap();
        drop(self.keyboard);
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            if began.elapsed() >= WAIT_TIMEOUT {
                self.child.kill().unwrap();
                panic!("the program does not end when its terminal is closed");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits for the end. Returns the status and the visible text.
    #[track_caller]
    pub fn wait_for_end(self) -> (ExitStatus, String) {
        let (status, screen) = self.wait_for_raw_end();
        (status, visible_text(&screen))
    }

    /// Waits for the end. Returns the status and all bytes the terminal received.
    #[track_caller]
    pub fn wait_for_raw_end(mut self) -> (ExitStatus, String) {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() >= WAIT_TIMEOUT {
                // The program may be waiting for input.
                self.child.kill().unwrap();
                let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
                panic!(
                    "the program does not end: {}",
                    visible_text(&String::from_utf8_lossy(&screen))
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        drop(self.keyboard);
        self.reader.join().unwrap();
        let screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        (status, String::from_utf8_lossy(&screen).into_owned())
    }
}

/// Returns the text that stays visible: without what was overwritten or erased, and without colours.
fn visible_text(text: &str) -> String {
    let lines = text.split('\n').map(visible_line);
    lines.collect::<Vec<_>>().join("\n")
}

fn visible_line(line: &str) -> String {
    let mut shown: Vec<char> = Vec::new();
    let mut column = 0;
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        match character {
            '\r' => column = 0,
            '\x1b' => {
                // `ESC [ … letter` is a terminal command. Those that erase are `K`.
                let mut command = String::new();
                for of_command in characters.by_ref() {
                    command.push(of_command);
                    if of_command.is_ascii_alphabetic() {
                        break;
                    }
                }
                match command.as_str() {
                    "[K" => shown.truncate(column),
                    "[2K" => shown.clear(),
                    _ => {}
                }
            }
            character => {
                match shown.get_mut(column) {
                    Some(cell) => *cell = character,
                    None => shown.push(character),
                }
                column += 1;
            }
        }
    }
    shown.into_iter().collect()
}
