//! A supervising program, like `planwright supervise`.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    sandbox::run_supervisor(&arguments)
}
