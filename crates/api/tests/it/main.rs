//! Tests of the use cases, as a program calls them: without a terminal, a working directory or settings.

#![allow(
    clippy::unwrap_used,
    reason = "a test whose set-up fails has failed, and the panic says where"
)]

mod changing_plans;
mod creating_plans;
mod definitions;
mod diagnosis;
mod landing_parts;
mod next_steps;
mod projects;
mod sample_store;
mod shop_repository;
