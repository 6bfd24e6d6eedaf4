//! The command line, run as people and programs run it: real processes, real stores.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

mod answers;
mod applied_together;
mod attacks;
mod bad_arguments;
mod bad_files;
mod bad_stores;
mod budgets;
mod commands;
mod conditions;
mod confined_commands;
mod conflict_markers;
mod cut_off;
mod daily;
mod demo;
mod entering;
mod fleet;
mod forms_of_landing;
mod gates;
mod goals;
mod ignored;
mod in_force;
mod invariants;
mod landing;
mod landing_table;
mod modes;
mod output;
mod permissions;
mod preferences;
mod privacy;
mod recent_plan;
mod reference;
mod results;
mod sending_back;
mod sessions;
mod shell;
mod submodules;
mod supervise;
mod telling;
mod tour;
mod waiting;
mod without_a_terminal;
mod wording;
mod workers;
mod yard;
