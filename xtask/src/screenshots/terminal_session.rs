//! Records commands at a terminal of 80 columns, and draws what was seen as an SVG.

use std::fs::File;
use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anstyle_svg::{Term, WIN10_CONSOLE};
use anyhow::{Context, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use super::example_shop::ExampleShop;

/// A command, and what is typed at its question.
struct TypedCommand {
    words: &'static [&'static str],
    answer: Option<(&'static str, &'static str)>,
}

/// The quick start of the README, with one plan.
const COMMANDS: [TypedCommand; 4] = [
    TypedCommand {
        words: &["run", "Wait longer between retries"],
        answer: Some(("ater? ", "l\n")),
    },
    TypedCommand {
        words: &["diff"],
        answer: None,
    },
    TypedCommand {
        words: &["apply"],
        answer: Some(("[y/N] ", "y\n")),
    },
    TypedCommand {
        words: &["undo"],
        answer: Some(("[y/N] ", "y\n")),
    },
];

pub fn record(shop: &ExampleShop<'_>) -> anyhow::Result<String> {
    let mut seen = String::new();
    for (index, command) in COMMANDS.iter().enumerate() {
        if index > 0 {
            seen.push('\n');
        }
        seen.push_str(&command_line(command.words));
        for line in run_at_terminal(shop, command)?.lines() {
            seen.push_str(&visible_part(line));
            seen.push('\n');
        }
    }
    let drawn = Term::new()
        .palette(WIN10_CONSOLE)
        .render_svg(seen.trim_end());
    Ok(READABLE_COLORS
        .iter()
        .fold(drawn, |svg, (from, to)| svg.replace(from, to)))
}

fn command_line(words: &[&str]) -> String {
    let quote = |word: &&str| match word.contains(' ') {
        true => format!("\"{word}\""),
        false => (*word).to_owned(),
    };
    let words: Vec<String> = words.iter().map(quote).collect();
    format!(
        "\x1b[32m$\x1b[0m \x1b[1mplanwright {}\x1b[0m\n",
        words.join(" ")
    )
}

/// What is left of a line that was drawn several times, each time from its start.
fn visible_part(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    let last = line.rsplit('\r').next().unwrap_or(line);
    last.replace(ERASE_TO_END, "")
}

fn run_at_terminal(shop: &ExampleShop<'_>, typed: &TypedCommand) -> anyhow::Result<String> {
    // Not inherited: the terminal closes when the program ends.
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?.into_string()?;
    let slave = File::options().read(true).write(true).open(name)?;
    let size = Winsize {
        ws_row: 50,
        ws_col: 80,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size)?;
    let mut command = shop.planwright(typed.words);
    command
        .stdin(Stdio::from(slave.try_clone()?))
        .stdout(Stdio::from(slave.try_clone()?))
        .stderr(Stdio::from(slave));
    let mut child = command.spawn().context("could not start planwright")?;
    drop(command);

    let result = converse(&mut File::from(master), typed, shop);
    if result.is_err() {
        let _already_ended = child.kill();
    }
    child.wait()?;
    result
}

/// Reads until the program ends, and answers its question.
fn converse(
    terminal: &mut File,
    typed: &TypedCommand,
    shop: &ExampleShop<'_>,
) -> anyhow::Result<String> {
    let mut seen = Vec::new();
    let mut answer = typed.answer;
    let deadline = Instant::now() + WAIT_TIMEOUT;
    let mut buffer = [0; 4096];
    loop {
        let is_stopped = shop.signals.received_signal().is_some();
        ensure!(!is_stopped, "stopped by a signal");
        let text = String::from_utf8_lossy(&seen);
        ensure!(Instant::now() < deadline, "planwright still runs: {text}");
        if let Some((question, reply)) = answer
            && text.ends_with(question)
        {
            terminal.write_all(reply.as_bytes())?;
            answer = None;
        }
        let interval = Timespec {
            tv_sec: 0,
            tv_nsec: 50_000_000,
        };
        if poll(
            &mut [PollFd::new(&*terminal, PollFlags::IN)],
            Some(&interval),
        )? == 0
        {
            continue;
        }
        // Reading fails when the program has ended.
        let Ok(count @ 1..) = terminal.read(&mut buffer) else {
            break;
        };
        seen.extend(buffer.iter().take(count));
    }
    ensure!(
        answer.is_none(),
        "planwright did not ask: {}",
        String::from_utf8_lossy(&seen)
    );
    Ok(String::from_utf8(seen)?)
}

/// Terminals draw these colors brighter than the palette does.
const READABLE_COLORS: [(&str, &str); 5] = [
    ("#0C0C0C", "#161B22"),
    ("#13A10E", "#3FB950"),
    ("#C50F1F", "#FF7B72"),
    ("#C19C00", "#E3B341"),
    ("opacity: 0.4", "opacity: 0.6"),
];
const ERASE_TO_END: &str = "\x1b[K";
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_state_of_a_line_is_drawn() {
        assert_eq!(
            visible_part("\rworking\x1b[K\r\x1b[K  edit a.rs\r"),
            "  edit a.rs"
        );
        assert_eq!(visible_part("plain\r"), "plain");
    }
}
