//! `planwright plumbing events`: streams the events of all plans as JSON lines.

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use store::Cursor;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::wire::EventView;

/// Upper bound for one wait for new events.
const WAIT_INTERVAL: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// Start after this cursor from an earlier answer
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// Wait for more events instead of stopping at the end
    #[arg(long)]
    follow: bool,
    /// Stop after this many events
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Prints events one per line. The envelope at the end has the cursor to continue from.
pub fn run(args: &EventsArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let mut cursor = args.after.clone().unwrap_or(Cursor::START);
    let mut events = app.lifecycle()?.events(cursor.clone());
    let mut shown: u64 = 0;
    let mut stdout = std::io::stdout().lock();
    while args.limit.is_none_or(|limit| shown < limit) {
        let next = if args.follow {
            events.next_within(WAIT_INTERVAL)?
        } else {
            events.next_ready()?
        };
        let Some(event) = next else {
            if args.follow {
                continue;
            }
            break;
        };
        let line =
            serde_json::to_string(&EventView::from(&event)).expect("BUG: an event always encodes");
        // A closed standard output is not an error.
        if writeln!(stdout, "{line}")
            .and_then(|()| stdout.flush())
            .is_err()
        {
            return Ok(CommandAnswer {
                exit: CommandExit::Ok,
                ..CommandAnswer::new(json!(null), String::new())
            });
        }
        shown += 1;
        cursor = event.cursor.unwrap_or(cursor);
    }
    Ok(CommandAnswer::new(
        json!({ "events": shown, "cursor": cursor.to_string() }),
        String::new(),
    ))
}
