//! An engine with one registered repository, `shop`.

#![allow(clippy::disallowed_methods, reason = "tests run programs directly")]

use std::path::{Path, PathBuf};
use std::process::Command;

use lifecycle::{Call, Lifecycle, LocalHost};
use plan::Caller;
use plan::project::{Resource, ResourcePlace};
use sandbox::{GitEnv, Sandboxes};
use store::MemoryStore;
use testkit::samples;

pub struct ShopFixture {
    pub directory: tempfile::TempDir,
    pub lifecycle: Lifecycle,
}

pub fn call_as_ada() -> Call {
    Call::by(Caller::Person("ada".to_owned()))
}

impl ShopFixture {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let shop = directory.path().join("shop");
        std::fs::create_dir(&shop).unwrap();
        run_git(&shop, &["init", "-q", "-b", "main", "."]);
        run_git(&shop, &["config", "user.name", "Ada"]);
        run_git(&shop, &["config", "user.email", "ada@example.org"]);
        std::fs::write(shop.join("README.md"), "# Shop\n").unwrap();
        run_git(&shop, &["add", "-A"]);
        run_git(&shop, &["commit", "-q", "-m", "start"]);
        let git_env = GitEnv {
            program: "git".into(),
            path: std::env::var_os("PATH"),
            home: Some("/nonexistent".into()),
            config_home: None,
            timeout: sandbox::GIT_TIMEOUT,
            stop: None,
        };
        let local_host = LocalHost {
            sandboxes: Sandboxes::new(directory.path().join("home"), git_env),
            host: "here".parse().unwrap(),
        };
        let lifecycle = Lifecycle::open(MemoryStore::new()).with_local_host(local_host);
        let fixture = Self {
            directory,
            lifecycle,
        };
        let resource = Resource {
            name: "code".parse().unwrap(),
            host: "here".parse().unwrap(),
            place: ResourcePlace::Git {
                path: fixture.path().display().to_string(),
                branch: "refs/heads/main".to_owned(),
            },
        };
        fixture
            .lifecycle
            .projects()
            .create_project(&samples::parse_name("shop"), vec![resource], &call_as_ada())
            .unwrap();
        fixture
    }

    pub fn path(&self) -> PathBuf {
        self.directory.path().join("shop")
    }
}

fn run_git(directory: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .arg("-C")
        .arg(directory)
        .args(arguments)
        .status()
        .unwrap();
    assert!(status.success(), "git {arguments:?}");
}
