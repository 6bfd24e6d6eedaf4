//! Takes pictures of the page with Chromium.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::child;
use crate::signals::StopSignals;

/// A browser with a profile of its own, which keeps the session of the page.
pub struct Browser<'a> {
    program: &'a Path,
    scratch: &'a Path,
    signals: &'a StopSignals,
}

#[derive(Clone, Copy)]
pub enum ColorScheme {
    Light,
    Dark,
}

#[derive(Clone, Copy)]
pub struct PictureSize {
    pub width: u32,
    pub height: u32,
}

pub fn find_chromium() -> anyhow::Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .flat_map(|directory| ["chromium", "chromium-browser"].map(|name| directory.join(name)))
        .find(|program| program.is_file())
        .context("Chromium takes the pictures and is not in PATH. On Debian: apt install chromium")
}

impl<'a> Browser<'a> {
    pub fn new(program: &'a Path, scratch: &'a Path, signals: &'a StopSignals) -> Self {
        Self {
            program,
            scratch,
            signals,
        }
    }

    /// Opens the link that works once. The profile keeps the session that begins.
    pub fn enter(&self, link: &str) -> anyhow::Result<()> {
        let size = PictureSize {
            width: 1280,
            height: 640,
        };
        let file = self.scratch.join("entered.png");
        self.take_picture(link, size, ColorScheme::Light, &file)
    }

    pub fn take_picture(
        &self,
        url: &str,
        size: PictureSize,
        scheme: ColorScheme,
        file: &Path,
    ) -> anyhow::Result<()> {
        let log = self.scratch.join("chromium.log");
        let mut command = Command::new(self.program);
        command
            .args(FLAGS)
            .arg(format!("--window-size={},{}", size.width, size.height))
            .arg(format!(
                "--user-data-dir={}",
                self.scratch.join("chromium").display()
            ))
            .arg(format!("--screenshot={}", file.display()));
        if let ColorScheme::Dark = scheme {
            command.arg("--force-dark-mode");
        }
        command
            .arg(url)
            .env("HOME", self.scratch.join("user"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        let status = child::run_child(&mut command, self.signals)?;
        ensure!(
            status.success() && file.is_file(),
            "Chromium took no picture: {}",
            std::fs::read_to_string(&log).unwrap_or_default()
        );
        Ok(())
    }
}

const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    // Long enough for the page to connect to its events.
    "--virtual-time-budget=10000",
];
