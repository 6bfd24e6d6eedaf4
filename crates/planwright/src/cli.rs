//! The command line: reads it, runs one command, prints what it answered.

use std::cell::{Cell, OnceCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use lifecycle::{Call, Lifecycle};
use plan::ledger::Means;
use plan::stage::{Category, ConstraintKind, Landing, Work};
use plan::{Name, Phase, Plan, PlanId, Stage};
use store::{Clock, PlanFilter, PlanRow};

use crate::commands::{self, Answer};
use crate::error::CommandError;
use crate::exit::Exit;
use crate::limits;
use crate::recent_plan::RecentPlan;
use crate::settings::{Settings, StorePlace};
use crate::typed::Typed;
use crate::ui::{self, Asides, Audience};
use crate::wire::{Envelope, Message, PlanView, Status, Timing};
use crate::{here, home};

/// Let any coding agent loose on your repository: it works in a private copy, your rules are
/// checked in code, and what you approve lands exactly once or not at all.
///
/// Without a command: what needs you, each with the command to go on.
#[derive(Debug, Parser)]
#[command(
    name = "planwright",
    version,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// How to answer.
    #[arg(long, global = true, value_enum, default_value_t = Format::Human)]
    pub format: Format,

    /// Where plans are kept: sqlite:PATH or postgres://USER@HOST/DATABASE.
    #[arg(long, global = true, value_name = "STORE")]
    pub store: Option<String>,

    #[command(subcommand)]
    command: Option<commands::Command>,
}

/// How to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Human,
    /// For programs: one JSON envelope.
    Json,
}

/// What every command gets.
pub struct App {
    /// Flags, environment and file.
    pub settings: Settings,
    /// How to answer.
    pub format: Format,
    /// For ages and timings; decisions get their time from the store.
    pub clock: Clock,
    /// How to write commands so that they can be typed from here.
    pub typed: Typed,
    /// Who tells what takes its time.
    pub asides: Asides,
    lifecycle: OnceCell<Lifecycle>,
    /// The plan that was asked about, for what is said when it does not work.
    asked_about: Cell<Option<PlanId>>,
    /// Did a person type this command, rather than a script or an agent?
    is_typed_by_person: bool,
}

impl App {
    /// The engine on the store of the settings. Opening it writes nothing.
    pub fn lifecycle(&self) -> Result<&Lifecycle, CommandError> {
        if let Some(lifecycle) = self.lifecycle.get() {
            return Ok(lifecycle);
        }
        let mut hands = crate::host::hands(&self.settings.home)?;
        let reach = crate::crew::command_reach(self);
        hands.workshop = hands.workshop.with_command_reach(reach);
        let asides = self.asides.clone();
        let lifecycle = open(&self.settings.store()?)?
            .telling(move |plan, aside| asides.tell(plan, aside))
            .with_hands(hands)
            .with_inspectors(crate::crew::inspectors(self)?)
            .with_budget(self.settings.budget());
        Ok(self.lifecycle.get_or_init(|| lifecycle))
    }

    /// A call on the word of the person at the command line.
    pub fn call(&self) -> Call {
        Call::by(home::caller())
    }

    /// The plan a handle names; `@` is the plan that was last made or named in this checkout, else the newest here.
    pub fn plan(&self, handle: &str) -> Result<PlanId, CommandError> {
        let plan = self.resolved(handle)?;
        self.asked_about.set(Some(plan));
        // A whole id is taken at its word, and may be nobody's.
        if handle != "@" && self.lifecycle()?.get_plan(plan).is_ok() {
            self.remember(plan);
        }
        Ok(plan)
    }

    /// Makes a plan the one that `@` names in this checkout. Without effect for scripts and agents: what they name
    /// must not change what a person means.
    pub fn remember(&self, plan: PlanId) {
        if !self.is_typed_by_person {
            return;
        }
        if let Some(recent) = self.recent_plan().filter(|it| it.read() != Some(plan)) {
            // Then `@` means what it meant before, and every verb that changes something says which plan it took.
            let _ = recent.write(plan);
        }
    }

    fn recent_plan(&self) -> Option<RecentPlan> {
        RecentPlan::of_checkout(&self.settings.home, &self.settings.store().ok()?)
    }

    fn resolved(&self, handle: &str) -> Result<PlanId, CommandError> {
        let lifecycle = self.lifecycle()?;
        let recent = match handle {
            "@" => self.recent_plan().and_then(|recent| recent.read()),
            _ => None,
        };
        if let Some(plan) = recent.filter(|plan| lifecycle.get_plan(*plan).is_ok()) {
            return Ok(plan);
        }
        let projects = match handle {
            "@" => self.projects_of_repository()?,
            _ => None,
        };
        // Never the plan of another repository, for that is not what was meant.
        let Some(projects) = projects else {
            return Ok(lifecycle.resolve(handle)?);
        };
        let newest = self.plans(&PlanFilter::default(), Some(&projects), None, 1)?;
        newest.first().map(|row| row.plan.id).ok_or_else(|| {
            CommandError::new(Exit::NotFound, "There is no plan of this repository.")
                .hint("planwright list --all")
        })
    }

    /// A page of plans, newest first: all there are, or those that work on any of these projects.
    pub fn plans(
        &self,
        filter: &PlanFilter,
        of: Option<&[Name]>,
        after: Option<PlanId>,
        limit: usize,
    ) -> Result<Vec<PlanRow>, CommandError> {
        let lifecycle = self.lifecycle()?;
        let Some(projects) = of else {
            return Ok(lifecycle.list_plans(filter, after, limit)?);
        };
        let mut rows = BTreeMap::new();
        for project in projects {
            let filter = PlanFilter {
                project: Some(project.clone()),
                ..filter.clone()
            };
            let page = lifecycle.list_plans(&filter, after, limit)?;
            rows.extend(page.into_iter().map(|row| (Reverse(row.plan.id), row)));
        }
        Ok(rows.into_values().take(limit).collect())
    }

    /// An error as it is said to people who typed this command.
    fn for_people(&self, error: CommandError, typed: &str) -> CommandError {
        let Some(id) = self.asked_about.get() else {
            return error.for_people(typed, None);
        };
        let known = self.lifecycle().ok().and_then(|lifecycle| {
            let row = lifecycle.get_plan(id).ok()?;
            Some((row.plan, lifecycle.short_name(id).ok()?))
        });
        let known = known.as_ref();
        error.for_people(typed, known.map(|(plan, handle)| (plan, handle.as_str())))
    }

    /// The project that the current directory belongs to, if it is exactly one.
    pub fn project_here(&self) -> Result<Option<Name>, CommandError> {
        let mut found = self.projects_here()?.into_iter();
        let first = found.next();
        Ok(first.filter(|_| found.next().is_none()))
    }

    /// The projects of the repository one is in, none if it is none yet; nothing outside of any.
    pub fn projects_of_repository(&self) -> Result<Option<Vec<Name>>, CommandError> {
        let projects = self.projects_here()?;
        let inside = !projects.is_empty() || here::checkout().is_some();
        Ok(inside.then_some(projects))
    }

    /// Every project that the current directory belongs to.
    fn projects_here(&self) -> Result<Vec<Name>, CommandError> {
        const MOST: usize = 500;
        let Ok(here) = std::env::current_dir().and_then(|here| here.canonicalize()) else {
            return Ok(Vec::new());
        };
        let lifecycle = self.lifecycle()?;
        let host = &lifecycle.hands()?.host;
        let found = lifecycle
            .list_projects(None, MOST)?
            .into_iter()
            .filter(|project| {
                project.resources.iter().any(|resource| {
                    resource.host == *host && here.starts_with(resource.place.path())
                })
            })
            .map(|project| project.name);
        Ok(found.collect())
    }

    /// A plan as it is now, as programs see it.
    pub fn view(&self, plan: PlanId) -> Result<PlanView, CommandError> {
        let lifecycle = self.lifecycle()?;
        Ok(PlanView::new(
            &lifecycle.get_plan(plan)?,
            &lifecycle.changesets(plan)?,
            &lifecycle.ledger(plan)?,
        ))
    }

    /// The command a person goes on with, if the plan waits for one.
    pub fn next_command(&self, row: &PlanRow) -> Result<Option<String>, CommandError> {
        if self.is_interrupted(row)? {
            let handle = self.lifecycle()?.short_name(row.plan.id)?;
            return Ok(Some(match row.plan.phase() {
                Phase::Apply => format!("planwright apply {handle}"),
                Phase::Strategize | Phase::Execute if commands::is_workable(&row.plan) => {
                    format!("planwright run {handle}")
                }
                Phase::Strategize | Phase::Execute => {
                    format!("planwright plumbing reclaim {handle}")
                }
            }));
        }
        if !row.needs_person() {
            return Ok(None);
        }
        let handle = self.lifecycle()?.short_name(row.plan.id)?;
        if row.is_blocked() {
            return Ok(Some(format!("planwright why {handle}")));
        }
        // Looking, signing and landing are one command for people.
        let signable = matches!(row.plan.stage, Stage::Execute(Work::Complete));
        if signable && row.plan.has_targets() {
            return Ok(Some(format!("planwright apply {handle}")));
        }
        if let Stage::Apply(Landing::Constrained(constraint)) = &row.plan.stage {
            let nothing_left = constraint.paths.is_empty();
            return Ok(Some(match constraint.kind {
                ConstraintKind::Conflict if nothing_left => format!("planwright cancel {handle}"),
                // Only another result can help.
                ConstraintKind::Conflict | ConstraintKind::Gate => {
                    format!("planwright revise {handle} \"TEXT\"")
                }
                ConstraintKind::LocalEdits | ConstraintKind::OperationInProgress => {
                    commands::apply::apply_again(&row.plan, &handle)
                }
                ConstraintKind::ApprovalVoid => format!("planwright apply {handle}"),
            }));
        }
        let starts = match &row.plan.stage {
            Stage::Strategize(work) => matches!(work, Work::Queued(_) | Work::Complete),
            Stage::Execute(_) | Stage::Apply(_) => false,
        };
        if starts && commands::is_workable(&row.plan) {
            return Ok(Some(format!("planwright run {handle}")));
        }
        let failure = row.plan.stage.failure();
        if failure.is_some_and(|failure| failure.category == Category::Budget) {
            return self.more_means(&row.plan, &handle).map(Some);
        }
        let verb = plan::decide::options(&row.plan).into_iter().next();
        Ok(verb.map(|verb| crate::error::command_for(verb, &handle)))
    }
}

impl App {
    /// Did the process that works on a plan end without giving it back?
    pub fn is_interrupted(&self, row: &PlanRow) -> Result<bool, CommandError> {
        if row.lease.is_none() {
            return Ok(false);
        }
        let lifecycle = self.lifecycle()?;
        Ok(lifecycle.is_abandoned(row, lifecycle.store().now()?)?)
    }

    /// The words for where a plan stands, and how they look.
    pub fn standing(&self, row: &PlanRow) -> Result<(&'static str, anstyle::Style), CommandError> {
        Ok(match self.is_interrupted(row)? {
            true => ("interrupted", ui::WARN),
            false => ui::standing(row),
        })
    }

    /// What gives a plan that used up what it might use something to go on with: as much again.
    fn more_means(&self, plan: &Plan, handle: &str) -> Result<String, CommandError> {
        let lifecycle = self.lifecycle()?;
        let (ledger, budget) = (lifecycle.ledger(plan.id)?, lifecycle.budget());
        let mut command = format!("planwright retry {handle}");
        for means in Means::ALL {
            let spent = ledger.plan.settled.of(means);
            match plan.limits.of(means) {
                Some(limit) if spent >= limit => {
                    command.push_str(&format!(" {}", limits::flag(means, spent, limit)));
                }
                Some(_) | None => {}
            }
            let spent = ledger.global.settled.of(means);
            match budget.of(means) {
                Some(limit) if spent >= limit => {
                    return Ok(limits::setting(means, spent, limit));
                }
                Some(_) | None => {}
            }
        }
        Ok(command)
    }
}

/// The engine on a store, without touching it yet.
pub fn open(place: &StorePlace) -> Result<Lifecycle, CommandError> {
    let faults = crate::faults::from_environment()?;
    Ok(match place {
        StorePlace::Sqlite(path) => {
            let options = store::SqliteOptions {
                faults,
                ..store::SqliteOptions::default()
            };
            Lifecycle::open(store::SqliteStore::new(path, options))
        }
        StorePlace::Postgres(url) => {
            let options = store::PostgresOptions {
                faults,
                ..store::PostgresOptions::default()
            };
            Lifecycle::open(store::PostgresStore::new(url, options)?)
        }
    })
}

/// Runs the program.
pub fn main() -> ExitCode {
    let clock = Clock::default();
    let started = clock.now();
    let stopwatch = Instant::now();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(code) = commands::supervise::run(&arguments) {
        return code;
    }
    let (matches, cli) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return refuse_usage(&error, &arguments, started),
    };
    let name = command_name(&matches);
    let format = format_of(&cli, &name);
    let typed = Typed::new(&program_as_called(&arguments), cli.store.as_deref());
    let result = run(cli, &name, clock, &typed);
    let timing = Timing {
        started,
        duration_ms: milliseconds(stopwatch.elapsed()),
    };
    let mut outcome = envelope(name, result, timing);
    for message in outcome
        .envelope
        .messages
        .iter_mut()
        .filter(|message| message.level == "hint")
    {
        message.text = typed.hint(&message.text);
    }
    print(&outcome, format, &typed)
}

struct Outcome {
    envelope: Envelope,
    text: String,
}

fn run(cli: Cli, name: &str, clock: Clock, typed: &Typed) -> Result<Answer, CommandError> {
    let format = format_of(&cli, name);
    let app = App {
        settings: Settings::gather(cli.store.as_deref())?,
        asides: Asides::new(Audience::of(format)),
        format,
        clock,
        typed: typed.clone(),
        lifecycle: OnceCell::new(),
        asked_about: Cell::new(None),
        is_typed_by_person: !is_plumbing(name) && !crate::settings::inside_a_run(),
    };
    let result = match cli.command {
        Some(command) => command.run(&app),
        None => commands::overview::run(&app),
    };
    result.map_err(|error| match is_plumbing(name) {
        true => error.for_scripts(),
        false => app.for_people(error, name),
    })
}

/// Plumbing always answers programs.
fn format_of(cli: &Cli, name: &str) -> Format {
    match is_plumbing(name) {
        true => Format::Json,
        false => cli.format,
    }
}

fn is_plumbing(name: &str) -> bool {
    name.starts_with("plumbing")
}

fn parse(arguments: &[OsString]) -> Result<(ArgMatches, Cli), clap::Error> {
    let matches = Cli::command().try_get_matches_from(arguments)?;
    let cli = Cli::from_arg_matches(&matches)?;
    Ok((matches, cli))
}

/// The words of the command without its arguments, as in `plumbing start-execute`.
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

fn envelope(command: String, result: Result<Answer, CommandError>, timing: Timing) -> Outcome {
    match result {
        Ok(answer) => {
            let warned = answer
                .messages
                .iter()
                .any(|message| message.level == "warn");
            let status = match (answer.exit, warned) {
                (Exit::Ok, false) => Status::Ok,
                (Exit::Ok, true) => Status::Warn,
                (_, _) => Status::Error,
            };
            let exit_code = answer.exit.code();
            let messages = answer.messages;
            Outcome {
                envelope: Envelope {
                    command,
                    status,
                    exit_code,
                    data: answer.data,
                    timing,
                    messages,
                },
                text: answer.text,
            }
        }
        Err(error) => {
            let mut messages = vec![Message {
                level: "error",
                text: error.message,
            }];
            messages.extend(error.hints.into_iter().map(|text| Message {
                level: "hint",
                text,
            }));
            let exit_code = error.exit.code();
            let status = Status::Error;
            Outcome {
                envelope: Envelope {
                    command,
                    status,
                    exit_code,
                    data: error.data,
                    timing,
                    messages,
                },
                text: String::new(),
            }
        }
    }
}

/// Data to stdout, everything else to stderr. A reader that went away is no error of ours.
fn print(outcome: &Outcome, format: Format, typed: &Typed) -> ExitCode {
    let envelope = &outcome.envelope;
    let mut stdout = anstream::stdout().lock();
    let written = match format {
        Format::Json => {
            let json = serde_json::to_string(envelope).expect("BUG: an envelope always encodes");
            writeln!(stdout, "{json}")
        }
        Format::Human => {
            // What was answered comes before what can be done next.
            let answered =
                write!(stdout, "{}", ui::only_colours(&outcome.text)).and_then(|()| stdout.flush());
            let mut stderr = anstream::stderr().lock();
            let told = envelope
                .messages
                .iter()
                .try_for_each(|message| tell(&mut stderr, message, typed));
            answered.and(told)
        }
    };
    let flushed = written.and_then(|()| stdout.flush());
    match flushed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            ExitCode::from(Exit::Error.code())
        }
        Ok(()) | Err(_) => ExitCode::from(envelope.exit_code),
    }
}

fn tell(stderr: &mut impl Write, message: &Message, typed: &Typed) -> std::io::Result<()> {
    let text = ui::clean(&message.text);
    match message.level {
        "error" => writeln!(stderr, "{} {text}", ui::styled(ui::BAD.bold(), "error:")),
        "warn" => writeln!(stderr, "{} {text}", ui::styled(ui::WARN.bold(), "warning:")),
        "hint" if typed.is_command(&text) => {
            writeln!(stderr, "{} {text}", ui::styled(ui::CODE, "  try:"))
        }
        "hint" => writeln!(stderr, "{} {text}", ui::styled(ui::CODE, "  hint:")),
        _ => writeln!(stderr, "{text}"),
    }
}

/// Wrong words: clap's own message for people, an envelope for programs.
fn refuse_usage(error: &clap::Error, arguments: &[OsString], started: plan::Timestamp) -> ExitCode {
    use clap::error::ErrorKind;
    let words: Vec<String> = arguments
        .iter()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let ErrorKind::DisplayHelp | ErrorKind::DisplayVersion = error.kind() {
        // A reader that went away is no error of ours.
        let _ = error.print();
        return ExitCode::from(Exit::Ok.code());
    }
    let command = command_in(&words);
    let json = words.iter().any(|word| word == "--format=json")
        || words
            .windows(2)
            .any(|pair| pair[0] == "--format" && pair[1] == "json")
        || command.starts_with("plumbing");
    let which = which_plan(error, &command);
    let typed = Typed::new(&program_as_called(arguments), None);
    if !json {
        let _ = error.print();
        if let Some(hint) = which {
            let text = typed.hint(&hint);
            let level = "hint";
            let _ = tell(&mut anstream::stderr(), &Message { level, text }, &typed);
        }
        return ExitCode::from(Exit::Usage.code());
    }
    let text = match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            format!("`{command}` needs a command after it")
        }
        _ => error.to_string(),
    };
    let mut refused = CommandError::usage(text.strip_prefix("error: ").unwrap_or(&text).trim_end())
        .hint(format!("planwright help {command}").trim_end());
    refused.hints.extend(which);
    let timing = Timing {
        started,
        duration_ms: 0,
    };
    print(
        &envelope(command, Err(refused), timing),
        Format::Json,
        &typed,
    )
}

/// Whoever looks at a plan without saying which probably means the last one; it is never guessed.
fn which_plan(error: &clap::Error, command: &str) -> Option<String> {
    const LOOKING: [&str; 5] = ["status", "diff", "log", "why", "path"];
    let verb = command.strip_prefix("plan ").unwrap_or(command);
    let missing = error.kind() == clap::error::ErrorKind::MissingRequiredArgument;
    (missing && LOOKING.contains(&verb))
        .then(|| format!("Say which plan; @ is the last one you used here: planwright {command} @"))
}

/// The command in words that do not parse, as far as it can be made out.
fn command_in(words: &[String]) -> String {
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
    // A bare word was found on the PATH, whatever it is called there.
    if called.contains('/') {
        called
    } else {
        "planwright".to_owned()
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
