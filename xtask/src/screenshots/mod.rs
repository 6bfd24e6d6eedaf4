//! `cargo xtask screenshots`: makes the pictures of the README and the docs from the program itself.
//!
//! Only the agent is a script. The plans, the page and the terminal session are real.

mod browser;
mod example_shop;
mod terminal_session;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};

use self::browser::{Browser, ColorScheme, PictureSize};
use self::example_shop::ExampleShop;
use crate::signals::StopSignals;
use crate::{cargo, child};

/// Make the pictures in docs/pictures from the program itself
#[derive(clap::Args)]
pub struct ScreenshotsArgs {}

pub fn run(_arguments: &ScreenshotsArgs) -> anyhow::Result<ExitCode> {
    let signals = StopSignals::register()?;
    let chromium = browser::find_chromium()?;
    let mut build = cargo::cargo_command();
    build.args(["build", "--package", "planwright"]);
    let status = child::run_child(&mut build, &signals).context("could not run cargo")?;
    ensure!(status.success(), "planwright could not be built");

    let target = cargo::target_directory()?;
    let scratch = tempfile::Builder::new()
        .prefix("screenshots-")
        .tempdir_in(&target)?;
    let programs = target.join("debug");
    let shop = ExampleShop::create(scratch.path(), &programs, &signals)?;
    let pictures = cargo::workspace_root().join("docs/pictures");
    std::fs::create_dir_all(&pictures)?;

    let session = terminal_session::record(&shop)?;
    std::fs::write(pictures.join("session.svg"), session)?;
    eprintln!("docs/pictures/session.svg");

    let demo = shop.open_demo()?;
    let browser = Browser::new(&chromium, scratch.path(), &signals);
    browser.enter(demo.link())?;
    let reviewed = demo.find_handle("Split billing.rs")?;
    let review = format!("{}/{reviewed}/review", demo.address());
    for (name, url, size, scheme) in [
        ("board-light", demo.address(), BOARD, ColorScheme::Light),
        ("board-dark", demo.address(), BOARD, ColorScheme::Dark),
        ("review-light", &review, REVIEW, ColorScheme::Light),
        ("review-dark", &review, REVIEW, ColorScheme::Dark),
        ("review-narrow", &review, PHONE, ColorScheme::Light),
    ] {
        let file = pictures.join(name).with_extension("png");
        browser.take_picture(url, size, scheme, &file)?;
        check_size(&file)?;
        eprintln!("docs/pictures/{name}.png");
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses pictures that slow a page down, and those of a page without content.
fn check_size(file: &Path) -> anyhow::Result<()> {
    let bytes = std::fs::metadata(file)?.len();
    ensure!(
        bytes <= MAX_BYTES,
        "{} has {bytes} bytes; the limit is {MAX_BYTES}",
        file.display()
    );
    ensure!(
        bytes >= MIN_BYTES,
        "{} has only {bytes} bytes; the page was probably empty",
        file.display()
    );
    Ok(())
}

const BOARD: PictureSize = PictureSize {
    width: 1280,
    height: 640,
};
const REVIEW: PictureSize = PictureSize {
    width: 1280,
    height: 800,
};
const PHONE: PictureSize = PictureSize {
    width: 390,
    height: 844,
};
const MAX_BYTES: u64 = 150_000;
const MIN_BYTES: u64 = 25_000;
