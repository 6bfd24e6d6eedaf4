//! `planwright init`.

use serde_json::json;

use crate::cli::App;
use crate::commands::Answer;
use crate::error::CommandError;
use crate::ui;

/// Set up the home and the store; safe to repeat.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Creates what is missing.
pub fn run(_args: &Args, app: &App) -> Result<Answer, CommandError> {
    let store = app.lifecycle()?.store();
    let existed = store.info()?.schema.is_some();
    let (_, schema) = store.migrate()?;
    let info = store.info()?;
    let what = if existed {
        "The store is ready"
    } else {
        "Created the store"
    };
    let text = format!(
        "{what}: {} (schema {schema})\n",
        ui::styled(ui::BOLD, &info.place)
    );
    let data = json!({
        "home": app.settings.home,
        "store": { "kind": info.kind, "place": info.place, "schema": schema },
        "created": !existed,
    });
    Ok(Answer::new(data, text).hint("planwright action create --config FILE"))
}
