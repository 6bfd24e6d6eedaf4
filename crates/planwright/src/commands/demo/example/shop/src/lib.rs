pub mod billing;
pub mod retry;
