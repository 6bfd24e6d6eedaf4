//! The command line, run as people and programs run it: real processes, real stores.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

mod acp_agents;
mod acp_client;
mod acp_connection;
mod acp_editor;
mod acp_landing;
mod acp_permissions;
mod acp_sessions;
mod advice;
mod agent_readiness;
mod agent_test;
mod answers;
mod applied_together;
mod attacks;
mod bad_arguments;
mod bad_files;
mod bad_stores;
mod board;
mod browser;
mod browser_review;
mod browser_sharing;
mod budgets;
mod commands;
mod completions;
mod conditions;
mod confined_commands;
mod conflict_markers;
mod daily;
mod demo;
mod docs_tour;
mod entering;
mod file_modes;
mod gates;
mod goals;
mod hanging_git;
mod ignored_files;
mod init;
mod landing;
mod landing_forms;
mod landing_table;
mod lost_connection;
mod many_workers;
mod mcp;
mod mcp_clients;
mod mcp_install;
mod missing_result;
mod notifications;
mod old_stores;
mod output;
mod permission_questions;
mod permissions;
mod preferences;
mod privacy;
mod recent_plan;
mod reference;
mod results;
mod revising;
mod rule_warnings;
mod rules;
mod run_tools;
mod server;
mod server_attacks;
mod sessions;
mod shell;
mod shop_repository;
mod submodules;
mod supervise;
mod unusable_home;
mod waiting;
mod without_a_terminal;
mod wording;
mod workers;
