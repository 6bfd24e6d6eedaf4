//! Writes what the server logs to standard error, one line per event.

use std::fmt::{self, Write as _};
use std::io::Write;

use store::Clock;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Writes events of level `INFO` and above. Ignores spans: nothing here uses them.
struct LineLog {
    clock: Clock,
}

/// Begins to write the log. A second call in one process does nothing.
pub fn start() {
    let log = LineLog {
        clock: Clock::default(),
    };
    let _ = tracing::subscriber::set_global_default(log);
}

impl Subscriber for LineLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("planwright")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("{} {}", self.clock.now(), event.metadata().level());
        event.record(&mut FieldWriter(&mut line));
        line.push('\n');
        // A log that nobody reads must not stop the server.
        let _ = anstream::stderr().lock().write_all(line.as_bytes());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Appends the fields of an event as `name=value`.
struct FieldWriter<'a>(&'a mut String);

impl Visit for FieldWriter<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {}={value}", field.name());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}
