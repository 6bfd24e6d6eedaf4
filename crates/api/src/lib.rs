//! The use cases of Planwright: typed requests in, typed views out.
//!
//! An operation is one read or one commit; it never waits for an agent, a rule's command or a landing. The
//! caller is an argument. Every surface renders the same views and the same next steps.
//!
//! Deliberately absent: the command line, terminals, the working directory, the environment, HTTP, printing
//! and commands to type.

// A new state, event or command must be a compile error wherever it is matched.
#![deny(clippy::wildcard_enum_match_arm)]

pub mod actions;
pub mod actors;
pub mod change_size;
pub mod changed_texts;
pub mod derived_plans;
pub mod diagnosis;
pub mod doctor;
mod hidden_characters;
pub mod landing;
pub mod next_steps;
pub mod overview;
pub mod plan_activity;
pub mod plan_config;
pub mod plan_list;
pub mod plan_status;
pub mod plans;
pub mod projects;
pub mod results;
pub mod reviews;
pub mod rule_marks;
pub mod rules;
pub mod sandboxes;
pub mod standing;
pub mod view;

pub use hidden_characters::mark_hidden_characters;
pub use next_steps::{NextStep, next_steps};
pub use standing::PlanStanding;
