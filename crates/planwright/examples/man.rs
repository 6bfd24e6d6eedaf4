//! Writes the man pages into a directory: `planwright.1` and one page per command. `cargo xtask man` runs this.

use clap::CommandFactory;
use planwright::cli::Cli;

fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1) else {
        return Err(std::io::Error::other("usage: man DIRECTORY"));
    };
    std::fs::create_dir_all(&directory)?;
    clap_mangen::generate_to(Cli::command(), directory)
}
