//! The `planwright` binary.

fn main() -> std::process::ExitCode {
    planwright::cli::main()
}
