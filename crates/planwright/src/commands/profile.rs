//! `planwright profile`: shows what each automation profile does without asking.

use api::view::{ProfileListView, ProfileView};
use clap::Subcommand;
use plan::Profile;
use plan::profile::AutomationStep;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::{completion, ui};

/// Show automation profiles: where plans stop and ask
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// List profiles
    List,
    /// Show which steps a profile takes without asking
    Show {
        /// Profile: manual, supervised, review or auto
        #[arg(add = completion::profiles())]
        name: Profile,
    },
}

fn describe_step(step: AutomationStep) -> &'static str {
    match step {
        AutomationStep::StartStrategize => "start strategize",
        AutomationStep::StartExecute => "start execute",
        AutomationStep::Apply => "apply",
        AutomationStep::Retry => "retry a transient error",
        AutomationStep::Revise => "send a failing result back",
        AutomationStep::Revert => "go back to strategize",
    }
}

impl ProfileCommand {
    pub fn run(self, app: &App) -> Result<CommandAnswer, CommandError> {
        Ok(match self {
            Self::List => list_profiles(app),
            Self::Show { name } => show_profile(name),
        })
    }
}

fn list_profiles(app: &App) -> CommandAnswer {
    let chosen = app.settings.chosen_profile().unwrap_or_default();
    let mut table = ui::TextTable::new(["PROFILE", "", "WHAT IT DOES"]);
    for profile in Profile::ALL {
        let remark = if profile == chosen { "yours" } else { "" };
        table.add_row([
            (profile.to_string(), ui::BOLD),
            (remark.to_owned(), ui::GOOD),
            (profile.description().to_owned(), anstyle::Style::new()),
        ]);
    }
    CommandAnswer::new(ProfileListView::new(chosen), table.to_string())
}

fn show_profile(profile: Profile) -> CommandAnswer {
    let mut text = format!(
        "{}  {}\n",
        ui::style_text(ui::BOLD, profile),
        profile.description()
    );
    for step in AutomationStep::ALL {
        let name = describe_step(step);
        let mode = if profile.allows_unattended(step) {
            "automatic"
        } else {
            "asks"
        };
        text.push_str(&format!(
            "  {}  {mode}\n",
            ui::style_text(ui::DIM, format!("{name:<27}"))
        ));
    }
    CommandAnswer::new(ProfileView::from(profile), text)
}
