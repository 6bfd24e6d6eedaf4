//! Parses the command line, runs one command and prints its answer.

use std::cell::{Cell, OnceCell};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use lifecycle::{Call, Lifecycle};
use plan::{Caller, PlanId, QualifiedName};
use store::Clock;

use crate::commands::{self, CommandAnswer, TextLayout};
use crate::error::{CommandError, MentionedPlan};
use crate::exit::CommandExit;
use crate::invocation::ProgramInvocation;
use crate::recent_plan::RecentPlan;
use crate::settings::{Settings, StoreAddress};
use crate::ui::{self, ProgressAudience, SlowStepReporter};
use crate::wire::{CommandStatus, CommandTiming, JsonEnvelope, UserMessage};
use crate::{completion, current_repository, home};

/// Let any coding agent loose on your repository: it works in a private copy, your rules are
/// checked in code, and what you approve lands exactly once or not at all.
///
/// Without a command, lists the plans that need you, each with the command to continue.
#[derive(Debug, Parser)]
#[command(
    name = "planwright",
    version,
    disable_help_subcommand = true,
    max_term_width = 100,
    override_help = commands::overview_help()
)]
pub struct Cli {
    /// Output format.
    #[arg(long, global = true, value_enum, default_value_t = CliFormat::Human)]
    pub format: CliFormat,

    /// The store that keeps the plans: sqlite:PATH or postgres://USER@HOST/DATABASE.
    #[arg(long, global = true, value_name = "STORE")]
    pub store: Option<String>,

    #[command(subcommand)]
    command: Option<commands::CliCommand>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CliFormat {
    /// Text for people.
    Human,
    /// One JSON envelope for programs.
    Json,
}

/// The context of one command: settings, output format and the engine, opened on first use.
pub struct App {
    pub settings: Settings,
    pub format: CliFormat,
    /// For displayed ages and timings only. Decisions use the store's time.
    pub clock: Clock,
    /// Renders commands in hints with this program's path and `--store`.
    pub invocation: ProgramInvocation,
    pub slow_steps: SlowStepReporter,
    lifecycle: OnceCell<Lifecycle>,
    /// The plan that the command names, for the hints of an error.
    mentioned_plan: Cell<Option<PlanId>>,
    /// The plan whose handle and goal were shown.
    announced_plan: Cell<Option<PlanId>>,
    /// False for plumbing commands and inside an agent's run.
    is_typed_by_person: bool,
    /// Who calls in a request of an editor, instead of the person at the command line.
    editor_agent: Option<Caller>,
}

impl App {
    /// The context of a completion request. Takes `--store` from the words to complete.
    pub fn for_completion() -> Result<Self, CommandError> {
        let words: Vec<String> = std::env::args().collect();
        let store = words.windows(2).find(|pair| pair[0] == "--store");
        let store = store.map(|pair| pair[1].as_str());
        Ok(Self {
            settings: Settings::load(store)?,
            format: CliFormat::Json,
            clock: Clock::default(),
            invocation: ProgramInvocation::new("planwright", store),
            slow_steps: SlowStepReporter::new(ProgressAudience::for_format(CliFormat::Json)),
            lifecycle: OnceCell::new(),
            mentioned_plan: Cell::new(None),
            announced_plan: Cell::new(None),
            is_typed_by_person: false,
            editor_agent: None,
        })
    }

    /// The context of one request of an editor, in a thread of its own. Prints nothing.
    pub fn for_editor(
        settings: Settings,
        invocation: ProgramInvocation,
        editor_agent: Caller,
    ) -> Self {
        Self {
            settings,
            format: CliFormat::Json,
            clock: Clock::default(),
            invocation,
            slow_steps: SlowStepReporter::new(ProgressAudience::for_format(CliFormat::Json)),
            lifecycle: OnceCell::new(),
            mentioned_plan: Cell::new(None),
            announced_plan: Cell::new(None),
            is_typed_by_person: false,
            editor_agent: Some(editor_agent),
        }
    }

    /// Returns the engine on the configured store. Opening it writes nothing.
    pub fn lifecycle(&self) -> Result<&Lifecycle, CommandError> {
        if let Some(lifecycle) = self.lifecycle.get() {
            return Ok(lifecycle);
        }
        let mut local_host = crate::host::open_local_host(&self.settings.home)?;
        let reach = crate::actor_set::command_reach(self);
        local_host.sandboxes = local_host.sandboxes.with_command_reach(reach);
        let slow_steps = self.slow_steps.clone();
        let address = self.settings.store_address()?;
        address.check_place()?;
        let lifecycle = open_lifecycle(&address)?
            .with_progress_listener(move |plan, slow_step| slow_steps.report_step(plan, slow_step))
            .with_local_host(local_host)
            .with_rule_checks(crate::actor_set::make_inspectors(self)?)
            .with_budget(self.settings.budget());
        Ok(self.lifecycle.get_or_init(|| lifecycle))
    }

    /// Returns a call by the current caller: the person, the agent inside whose run this is, or an editor's agent.
    pub fn new_call(&self) -> Call {
        Call::by(
            self.editor_agent
                .clone()
                .unwrap_or_else(home::current_caller),
        )
    }

    /// Returns a call for what comes with driving a plan, such as taking it over from a process that ended. An editor's
    /// agent may not do that, but the worker that runs its plans may.
    pub fn new_worker_call(&self, owner: &str) -> Call {
        match &self.editor_agent {
            Some(_) => Call::by(Caller::Worker(owner.to_owned())),
            None => self.new_call(),
        }
    }

    /// Resolves a handle. `@` is the plan last created or named in this checkout, else the newest plan here;
    /// `@-` is the one before it.
    pub fn resolve_plan(&self, handle: &str) -> Result<PlanId, CommandError> {
        let plan_id = self.resolve_handle(handle)?;
        self.mentioned_plan.set(Some(plan_id));
        // `@-` must name the same plan again: one looks at it first, and then lands it.
        let is_relative = matches!(handle, "@" | "@-");
        // A full id resolves without a lookup, so the plan may not exist.
        if !is_relative && self.lifecycle()?.get_plan(plan_id).is_ok() {
            self.remember_plan(plan_id);
        }
        Ok(plan_id)
    }

    /// Neither a script's plumbing nor an agent's run.
    pub fn is_typed_by_person(&self) -> bool {
        self.is_typed_by_person
    }

    /// Makes `@` name this plan in this checkout. Does nothing for scripts and agents: the plans they name must
    /// not change what `@` means to a person.
    pub fn remember_plan(&self, plan_id: PlanId) {
        if !self.is_typed_by_person {
            return;
        }
        if let Some(recent) = self.recent_plan().filter(|it| it.read() != Some(plan_id)) {
            // If this fails, `@` keeps its old meaning. Commands that change a plan print which one they used.
            let _ = recent.write(plan_id);
        }
    }

    /// Resolves `@` for a command whose plan was left out. Scripts and agents must name the plan.
    pub fn resolve_current_plan(&self) -> Result<PlanId, CommandError> {
        if !self.is_typed_by_person {
            return Err(
                CommandError::usage("Scripts and agents must name the plan.")
                    .with_hint("planwright list"),
            );
        }
        self.resolve_plan("@")
    }

    /// Says on standard error which plan a command uses. Programs find it in the answer.
    pub fn announce_current_plan(&self, plan_id: PlanId) -> Result<(), CommandError> {
        if self.format == CliFormat::Json || self.is_announced(plan_id) {
            return Ok(());
        }
        self.announced_plan.set(Some(plan_id));
        let row = self.lifecycle()?.get_plan(plan_id)?;
        let handle = self.lifecycle()?.short_handle(plan_id)?;
        let goal = ui::truncate_line(row.plan.goal().as_str(), 70);
        anstream::eprintln!(
            "{} {}",
            ui::style_text(ui::BOLD, handle),
            ui::style_text(ui::DIM, goal)
        );
        Ok(())
    }

    /// Returns whether the person has just read which plan this is.
    pub fn is_announced(&self, plan_id: PlanId) -> bool {
        self.announced_plan.get() == Some(plan_id)
    }

    fn recent_plan(&self) -> Option<RecentPlan> {
        RecentPlan::for_current_checkout(&self.settings.home, &self.settings.store_address().ok()?)
    }

    fn resolve_handle(&self, handle: &str) -> Result<PlanId, CommandError> {
        let lifecycle = self.lifecycle()?;
        if handle == "@-" {
            return self.resolve_previous_plan();
        }
        let recent = match handle {
            "@" => self.recent_plan().and_then(|recent| recent.read()),
            _ => None,
        };
        if let Some(plan) = recent.filter(|plan| lifecycle.get_plan(*plan).is_ok()) {
            return Ok(plan);
        }
        let projects = match handle {
            "@" => self.repository_projects()?,
            _ => None,
        };
        // Inside a repository, `@` never resolves to a plan of another repository.
        let Some(projects) = projects else {
            return Ok(lifecycle.resolve_handle(handle)?);
        };
        let newest = api::plan_list::find_newest_plan(lifecycle, projects)?;
        newest.ok_or_else(|| {
            CommandError::new(CommandExit::NotFound, "This repository has no plans.")
                .with_hint("planwright list --all")
        })
    }

    fn resolve_previous_plan(&self) -> Result<PlanId, CommandError> {
        let previous = self.recent_plan().and_then(|recent| recent.read_previous());
        previous.ok_or_else(|| {
            CommandError::new(
                CommandExit::NotFound,
                "Only one plan was used in this checkout so far, so there is none before it.",
            )
            .with_hint("planwright list")
        })
    }

    /// Adds the hints that depend on the plan the command named.
    fn explain_to_person(&self, error: CommandError, command: &str) -> CommandError {
        let Some(id) = self.mentioned_plan.get() else {
            return error.for_people(command, None);
        };
        let mentioned = self
            .lifecycle()
            .and_then(|lifecycle| MentionedPlan::read(lifecycle, id, &home::current_caller()))
            .ok();
        error.for_people(command, mentioned.as_ref())
    }

    /// The project of the current directory; `None` if it belongs to none or to several.
    pub fn current_project(&self) -> Result<Option<QualifiedName>, CommandError> {
        let mut found = self.current_projects()?.into_iter();
        let first = found.next();
        Ok(first.filter(|_| found.next().is_none()))
    }

    /// The projects of the current repository, empty if it has none yet. `None` outside any repository.
    pub fn repository_projects(&self) -> Result<Option<Vec<QualifiedName>>, CommandError> {
        let projects = self.current_projects()?;
        let inside = !projects.is_empty() || current_repository::find_checkout_root().is_some();
        Ok(inside.then_some(projects))
    }

    /// All projects that the current directory belongs to.
    fn current_projects(&self) -> Result<Vec<QualifiedName>, CommandError> {
        let Ok(here) = std::env::current_dir().and_then(|here| here.canonicalize()) else {
            return Ok(Vec::new());
        };
        Ok(api::projects::projects_of_directory(
            self.lifecycle()?,
            &here,
        )?)
    }
}

/// Opens the engine on a store without connecting to it.
pub fn open_lifecycle(address: &StoreAddress) -> Result<Lifecycle, CommandError> {
    let faults = crate::faults::store_faults()?;
    Ok(match address {
        StoreAddress::Sqlite(path) => {
            let options = store::SqliteOptions {
                faults,
                ..store::SqliteOptions::default()
            };
            Lifecycle::open(store::SqliteStore::new(path, options))
        }
        StoreAddress::Postgres(url) => {
            let options = store::PostgresOptions {
                faults,
                ..store::PostgresOptions::default()
            };
            Lifecycle::open(store::PostgresStore::new(url, options)?)
        }
    })
}

/// Runs the program and returns its exit code.
pub fn main() -> ExitCode {
    let clock = Clock::default();
    let started = clock.now();
    let stopwatch = Instant::now();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = commands::supervise::run(&arguments) {
        return code;
    }
    if let Some(code) = commands::relay_tools::run(&arguments) {
        return code;
    }
    if let Some(code) = completion::answer_request(&arguments) {
        return code;
    }
    let (matches, cli) = match parse_arguments(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refuse_usage(&error, &arguments, started),
    };
    let name = command_name(&matches);
    let format = effective_format(&cli, &name);
    let invocation = ProgramInvocation::new(&program_as_called(&arguments), cli.store.as_deref());
    let result = run_command(cli, &name, clock, &invocation);
    let timing = CommandTiming {
        started,
        duration_ms: as_milliseconds(stopwatch.elapsed()),
    };
    let mut outcome = wrap_result(&name, result, timing);
    invocation.render_hints(&mut outcome.envelope.messages);
    print_output(&outcome, format, &invocation)
}

/// The JSON envelope and the text for people; `print_output` writes one of them.
struct CliOutput {
    envelope: JsonEnvelope,
    text: String,
    layout: TextLayout,
}

fn run_command(
    cli: Cli,
    name: &str,
    clock: Clock,
    invocation: &ProgramInvocation,
) -> Result<CommandAnswer, CommandError> {
    let format = effective_format(&cli, name);
    let app = App {
        settings: Settings::load(cli.store.as_deref())?,
        slow_steps: SlowStepReporter::new(ProgressAudience::for_format(format)),
        format,
        clock,
        invocation: invocation.clone(),
        lifecycle: OnceCell::new(),
        mentioned_plan: Cell::new(None),
        announced_plan: Cell::new(None),
        is_typed_by_person: !is_plumbing(name) && crate::settings::enclosing_run().is_none(),
        editor_agent: None,
    };
    let result = match cli.command {
        Some(command) => command.run(&app),
        None => commands::overview::run(&app),
    };
    result.map_err(|error| match is_plumbing(name) {
        true => error.for_scripts(),
        false => app.explain_to_person(error, name),
    })
}

/// Plumbing commands always answer in JSON. `acp` and `mcp` print nothing but messages of their protocols.
fn effective_format(cli: &Cli, name: &str) -> CliFormat {
    match name {
        "acp" | "mcp" => CliFormat::Human,
        name if is_plumbing(name) => CliFormat::Json,
        _ => cli.format,
    }
}

fn is_plumbing(name: &str) -> bool {
    name.starts_with("plumbing")
}

fn parse_arguments(arguments: &[OsString]) -> Result<(ArgMatches, Cli), clap::Error> {
    let matches = Cli::command().try_get_matches_from(arguments)?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok((matches, cli))
}

/// The name of a command in JSON. `agent` and `rule` keep their old names `actor` and `invariant`, so that
/// programs that match on the name still work.
fn json_command_name(command: &str) -> String {
    let (first, rest) = command.split_once(' ').unwrap_or((command, ""));
    let stable = match first {
        "agent" => "actor",
        "rule" => "invariant",
        _ => return command.to_owned(),
    };
    format!("{stable} {rest}").trim_end().to_owned()
}

/// The command without its arguments: `plumbing start-execute`.
fn command_name(matches: &ArgMatches) -> String {
    let mut words = Vec::new();
    let mut current = matches;
    while let Some((word, deeper)) = current.subcommand() {
        words.push(word.to_owned());
        current = deeper;
    }
    if words.is_empty() {
        "overview".to_owned()
    } else {
        words.join(" ")
    }
}

fn wrap_result(
    command: &str,
    result: Result<CommandAnswer, CommandError>,
    timing: CommandTiming,
) -> CliOutput {
    match result {
        Ok(answer) => {
            let warned = answer
                .messages
                .iter()
                .any(|message| message.level == "warn");
            let status = match (answer.exit, warned) {
                (CommandExit::Ok, false) => CommandStatus::Ok,
                (CommandExit::Ok, true) => CommandStatus::Warn,
                (_, _) => CommandStatus::Error,
            };
            let exit_code = answer.exit.code();
            let messages = answer.messages;
            CliOutput {
                envelope: JsonEnvelope {
                    command: json_command_name(command),
                    status,
                    exit_code,
                    data: answer.data,
                    timing,
                    messages,
                },
                text: answer.text,
                layout: answer.layout,
            }
        }
        Err(error) => {
            let mut messages = vec![UserMessage {
                level: "error",
                text: error.message,
            }];
            messages.extend(error.hints.into_iter().map(|text| UserMessage {
                level: "hint",
                text,
            }));
            let exit_code = error.exit.code();
            let status = CommandStatus::Error;
            CliOutput {
                envelope: JsonEnvelope {
                    command: json_command_name(command),
                    status,
                    exit_code,
                    data: error.data,
                    timing,
                    messages,
                },
                text: String::new(),
                layout: TextLayout::default(),
            }
        }
    }
}

/// Writes data to stdout and messages to stderr. A closed pipe does not change the exit code.
fn print_output(
    outcome: &CliOutput,
    format: CliFormat,
    invocation: &ProgramInvocation,
) -> ExitCode {
    let envelope = &outcome.envelope;
    let mut stdout = anstream::stdout().lock();
    let written = match format {
        CliFormat::Json => {
            let json = serde_json::to_string(envelope).expect("BUG: an envelope always encodes");
            writeln!(stdout, "{json}")
        }
        CliFormat::Human => {
            // Flush first: on a terminal, the answer must appear before the hints on stderr.
            let text = ui::escape_except_colours(&outcome.text);
            let text = match ui::stdout_width() {
                Some(width) if outcome.layout == TextLayout::Wrapped => ui::wrap_rows(&text, width),
                Some(_) | None => text,
            };
            let answered = write!(stdout, "{text}").and_then(|()| stdout.flush());
            let mut stderr = anstream::stderr().lock();
            let messages_written = envelope
                .messages
                .iter()
                .try_for_each(|message| write_message(&mut stderr, message, invocation));
            answered.and(messages_written)
        }
    };
    let flushed = written.and_then(|()| stdout.flush());
    match flushed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            ExitCode::from(CommandExit::Error.code())
        }
        Ok(()) | Err(_) => ExitCode::from(envelope.exit_code),
    }
}

fn write_message(
    stderr: &mut impl Write,
    message: &UserMessage,
    invocation: &ProgramInvocation,
) -> std::io::Result<()> {
    let text = ui::escape_controls(&message.text);
    let is_command = message.level == "hint" && invocation.is_command(&text);
    let label_width = match message.level {
        "error" => 7,
        "hint" => 8,
        "warn" => 9,
        _ => 0,
    };
    let text = match ui::stderr_width() {
        // A command must be copied as one line.
        Some(width) if !is_command => wrap_message(&text, label_width, width),
        Some(_) | None => text,
    };
    match message.level {
        "error" => writeln!(
            stderr,
            "{} {text}",
            ui::style_text(ui::BAD.bold(), "error:")
        ),
        "warn" => writeln!(
            stderr,
            "{} {text}",
            ui::style_text(ui::WARN.bold(), "warning:")
        ),
        "hint" if is_command => {
            writeln!(stderr, "{} {text}", ui::style_text(ui::CODE, "  try:"))
        }
        "hint" => writeln!(stderr, "{} {text}", ui::style_text(ui::CODE, "  hint:")),
        _ => writeln!(stderr, "{text}"),
    }
}

/// Wraps a message. A command at its end stays whole: `To land it again: planwright undo k3f9`.
fn wrap_message(text: &str, indent: usize, width: usize) -> String {
    let wrapped = ui::wrap_hanging(text, indent, indent, width);
    if !wrapped.contains('\n') || text.contains('\n') {
        return wrapped;
    }
    match text.rsplit_once(": ") {
        Some((why, command)) if is_shell_command(command) => {
            let why = ui::wrap_hanging(why, indent, indent, width);
            format!("{why}:\n{:indent$}{command}", "")
        }
        Some(_) | None => wrapped,
    }
}

fn is_shell_command(text: &str) -> bool {
    let program = text.split(' ').next().unwrap_or_default();
    matches!(program, "git" | "npm" | "gh" | "glab") || program.ends_with("planwright")
}

/// Reports a command line that does not parse: clap's message for people, an envelope for programs.
fn refuse_usage(error: &clap::Error, arguments: &[OsString], started: plan::Timestamp) -> ExitCode {
    use clap::error::ErrorKind;
    let words: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let ErrorKind::DisplayHelp | ErrorKind::DisplayVersion = error.kind() {
        // A closed pipe is not an error.
        let _ = error.print();
        return ExitCode::from(CommandExit::Ok.code());
    }
    let command = guess_command(&words);
    let json = words.iter().any(|word| word == "--format=json")
        || words
            .windows(2)
            .any(|pair| pair[0] == "--format" && pair[1] == "json")
        || command.starts_with("plumbing");
    let invocation = ProgramInvocation::new(&program_as_called(arguments), None);
    if !json {
        let _ = error.print();
        return ExitCode::from(CommandExit::Usage.code());
    }
    let text = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("`{command}` needs a subcommand")
        }
        _ => error.to_string(),
    };
    let refused = CommandError::usage(text.strip_prefix("error: ").unwrap_or(&text).trim_end())
        .with_hint(format!("planwright help {command}").trim_end());
    let timing = CommandTiming {
        started,
        duration_ms: 0,
    };
    print_output(
        &wrap_result(&command, Err(refused), timing),
        CliFormat::Json,
        &invocation,
    )
}

/// Finds the command in arguments that do not parse.
fn guess_command(words: &[String]) -> String {
    let mut known = Cli::command();
    let mut found = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--store" || word == "--format" {
            words.next();
        } else if let Some(deeper) = known.find_subcommand(word).cloned() {
            found.push(deeper.get_name().to_owned());
            known = deeper;
        } else if !word.starts_with("--store=") && !word.starts_with("--format=") {
            break;
        }
    }
    found.join(" ")
}

fn program_as_called(arguments: &[OsString]) -> String {
    let called = arguments
        .first()
        .map(|word| word.to_string_lossy().into_owned())
        .unwrap_or_default();
    // A name without `/` was found on the PATH, so the plain name works in hints.
    if called.contains('/') {
        called
    } else {
        "planwright".to_owned()
    }
}

fn as_milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
