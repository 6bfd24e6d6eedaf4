//! `planwright profile`.

use clap::Subcommand;
use plan::Profile;
use plan::profile::Step;
use serde_json::{Value, json};

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::ui;

/// Profiles: where the engine stops and asks.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the profiles.
    List,
    /// Show what a profile does by itself.
    Show {
        /// manual, supervised, review or auto.
        name: Profile,
    },
}

/// The steps a profile decides about, as people call them.
const STEPS: [(Step, &str); 6] = [
    (Step::StartStrategize, "start strategize"),
    (Step::StartExecute, "start execute"),
    (Step::Apply, "apply"),
    (Step::Retry, "retry a passing error"),
    (Step::Revise, "send a failing result back"),
    (Step::Revert, "go back to strategize"),
];

impl Command {
    /// Carries it out.
    pub fn run(self, app: &App) -> Result<Answer, CommandError> {
        Ok(match self {
            Self::List => list(app),
            Self::Show { name } => show(name),
        })
    }
}

fn list(app: &App) -> Answer {
    let chosen = app.settings.profile().unwrap_or_default();
    let mut table = ui::Table::new(["PROFILE", "", "WHAT IT DOES"]);
    for profile in Profile::ALL {
        let remark = if profile == chosen { "yours" } else { "" };
        table.row([
            (profile.to_string(), ui::BOLD),
            (remark.to_owned(), ui::GOOD),
            (profile.description().to_owned(), anstyle::Style::new()),
        ]);
    }
    let views: Vec<Value> = Profile::ALL.into_iter().map(view).collect();
    Answer::new(
        json!({ "profiles": views, "chosen": chosen }),
        table.to_string(),
    )
}

fn show(profile: Profile) -> Answer {
    let mut text = format!(
        "{}  {}\n",
        ui::styled(ui::BOLD, profile),
        profile.description()
    );
    for (step, name) in STEPS {
        let goes = if profile.goes(step) {
            "by itself"
        } else {
            "asks"
        };
        text.push_str(&format!(
            "  {}  {goes}\n",
            ui::styled(ui::DIM, format!("{name:<27}"))
        ));
    }
    Answer::new(view(profile), text)
}

fn view(profile: Profile) -> Value {
    let steps: serde_json::Map<String, Value> = STEPS
        .into_iter()
        .map(|(step, _)| {
            (
                json!(step).as_str().unwrap_or_default().to_owned(),
                profile.goes(step).into(),
            )
        })
        .collect();
    json!({
        "name": profile,
        "description": profile.description(),
        "by_itself": steps,
        "approval_survives_merge": profile.approval_survives_merge(),
    })
}
