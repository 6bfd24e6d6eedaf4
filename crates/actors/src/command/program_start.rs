//! What every program that acts as an agent is started with: its files, its environment and its
//! confinement.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use plan::actor::CommandLine;
use plan::stage::FailureCategory;
use sandbox::ProcessSpec;

use super::environment::RunEnvironment;
use super::invocation::CommandInvocation;
use super::reachable_paths::{self, RunPaths};
use super::run_dir::RunDir;
use crate::run_tools::{McpArguments, RunTools};
use crate::{Assignment, HostEnv, Report, Workplace, program};

/// A program that is ready to be started.
pub(crate) struct PreparedProgram {
    /// As named in the definition.
    pub(crate) name: String,
    pub(crate) run_dir: RunDir,
    pub(crate) environment: RunEnvironment,
    /// Without an input.
    pub(crate) process_spec: ProcessSpec,
}

impl PreparedProgram {
    /// Writes the files of the run. The report of a failure says why the program cannot be started.
    pub(crate) fn build(
        (command_line, host_env): (&CommandLine, &HostEnv),
        invocation: &CommandInvocation<'_>,
        (assignment, workplace, run_tools): (&Assignment, &Workplace<'_>, Option<&RunTools>),
    ) -> Result<Self, Report> {
        let run_dir = RunDir::create(&workplace.run_dir, assignment, &invocation.prompt)
            .map_err(|error| run_dir_failure(workplace, &error))?;
        let first_sandbox = assignment.sandboxes.first();
        let directory =
            first_sandbox.map_or(run_dir.tmp_dir.as_path(), |sandbox| sandbox.path.as_path());
        let mut words = invocation
            .resolve_words(directory, host_env)
            .map_err(resource_failure)?;
        let program_name = words.first().cloned().unwrap_or_default();
        let program = find_program(&program_name, host_env, directory)?;
        let mcp = match run_tools.zip(command_line.mcp) {
            Some((tools, format)) => tools
                .mcp_server()
                .for_program(format, &workplace.run_dir)
                .map_err(|error| run_dir_failure(workplace, &error))?,
            None => McpArguments::default(),
        };
        words.extend(mcp.words);
        let mut run_files = mcp.files;
        run_files.extend([run_dir.assignment_file.clone(), run_dir.prompt_file.clone()]);
        run_files.extend(run_tools.map(|tools| tools.connection_file().to_owned()));
        let run_inputs = RunPaths {
            assignment,
            workplace,
            run_dir: &run_dir,
            run_files,
            relay: run_tools.map(RunTools::relay_program),
        };
        let confinement =
            reachable_paths::build_confinement(command_line, host_env, &program, run_inputs);
        words[0] = program.into_os_string();
        let environment = RunEnvironment::build(command_line, host_env, assignment, &run_dir);
        let process_spec = ProcessSpec {
            command: words,
            directory: directory.to_owned(),
            environment: environment.variables.clone(),
            input: None,
            confinement,
            locks: workplace.lock_files.clone(),
        };
        Ok(Self {
            name: program_name.to_string_lossy().into_owned(),
            run_dir,
            environment,
            process_spec,
        })
    }
}

fn find_program(
    program_name: &OsStr,
    host_env: &HostEnv,
    directory: &Path,
) -> Result<PathBuf, Report> {
    program::find_program(program_name, host_env.path(), Some(directory)).ok_or_else(|| {
        let program_path = Path::new(program_name);
        resource_failure(match program_path.components().count() {
            0 | 1 => format!(
                "`{}` is not installed: it is not in PATH; install it, or use another agent",
                program_path.display()
            ),
            _ => format!(
                "`{}` does not exist or is not executable",
                program_path.display()
            ),
        })
    })
}

pub(crate) fn run_dir_failure(workplace: &Workplace<'_>, error: &io::Error) -> Report {
    let run_dir = workplace.run_dir.display();
    resource_failure(format!("cannot use the run directory {run_dir}: {error}"))
}

pub(crate) fn resource_failure(message: String) -> Report {
    Report::failed(FailureCategory::Resource, message)
}
