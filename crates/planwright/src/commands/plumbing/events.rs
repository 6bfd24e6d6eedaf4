//! The log of all plans, line by line.

use std::io::Write;
use std::time::Duration;

use serde_json::json;
use store::Cursor;

use crate::cli::App;
use crate::commands::CommandAnswer;
use crate::error::CommandError;
use crate::exit::CommandExit;
use crate::wire::EventView;

/// How long to wait before looking again, whatever the store says.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Where to start, and when to stop.
#[derive(Debug, clap::Args)]
pub struct EventsArgs {
    /// Only events after this cursor, taken from an earlier answer.
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
    /// Wait for more instead of stopping at the end.
    #[arg(long)]
    follow: bool,
    /// Stop after so many.
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Prints events as they are; the envelope at the end says where to go on.
pub fn run(args: &EventsArgs, app: &App) -> Result<CommandAnswer, CommandError> {
    let mut cursor = args.after.clone().unwrap_or(Cursor::START);
    let mut events = app.lifecycle()?.events(cursor.clone());
    let mut shown: u64 = 0;
    let mut stdout = std::io::stdout().lock();
    while args.limit.is_none_or(|limit| shown < limit) {
        let next = if args.follow {
            events.next_within(POLL_INTERVAL)?
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
        // A reader that went away has seen enough.
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
