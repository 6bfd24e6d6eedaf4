//! `planwright mcp install`: shows, asks, edits only what it shows.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use testkit::TestRun;

use crate::shop_repository::ShopRepository;

struct ClientHome {
    repo: ShopRepository,
    home: PathBuf,
}

impl ClientHome {
    fn new() -> Self {
        let repo = ShopRepository::new();
        let home = repo.shop_path().with_file_name("person");
        std::fs::create_dir(&home).unwrap();
        Self { repo, home }
    }

    fn run(&self, words: &[&str]) -> TestRun {
        let words = [&["mcp", "install"], words].concat();
        let run = self.repo.program.run(words);
        run.with_variable("HOME", &self.home)
    }

    #[track_caller]
    fn install(&self, code: i32, words: &[&str]) -> String {
        let output = self.run(words).finish();
        assert_eq!(output.exit_code(), Some(code), "{words:?}: {output:?}");
        format!("{}{}", output.stdout, output.stderr)
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.home.join(path)).unwrap_or_default()
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn files(&self, directory: &str) -> usize {
        std::fs::read_dir(self.home.join(directory))
            .unwrap()
            .count()
    }
}

#[test]
fn settings_are_shown_then_changed_once() {
    let place = ClientHome::new();
    for (client, file, text) in [
        ("claude", ".claude.json", "{\n  \"z\": 1,\n  \"a\": {}\n}\n"),
        ("codex", ".codex/config.toml", "# mine\nmodel = \"x\"\n"),
        ("gemini", ".gemini/settings.json", "{}"),
    ] {
        place.write(file, text);
        let path = place.home.join(file);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let shown = place.install(0, &[client, "--print"]);
        assert!(
            shown.contains(file) && shown.contains("planwright"),
            "{shown}"
        );
        // Without a terminal, nobody can agree.
        let refused = place.install(6, &[client]);
        assert!(refused.contains("--yes"), "{refused}");
        assert_eq!(place.read(file), text);
        let done = place.install(0, &[client, "--yes"]);
        assert!(done.contains("can now start plans"), "{done}");
        let edited = place.read(file);
        for part in ["\"mcp\"", "\"--name\"", client, "PLANWRIGHT_HOME"] {
            assert!(edited.contains(part), "{edited}");
        }
        for line in text.lines().filter(|line| line.len() > 2) {
            assert!(edited.contains(line), "{line} in {edited}");
        }
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o640
        );
        let again = place.install(0, &[client, "--yes"]);
        assert!(again.contains("nothing changed"), "{again}");
        assert_eq!(place.read(file), edited);
    }
    assert_eq!(place.files(".codex"), 1);
}

#[test]
fn malformed_settings_are_left_alone() {
    let place = ClientHome::new();
    for (client, file, text) in [
        ("claude", ".claude.json", "{ \"a\": 1, }"),
        ("codex", ".codex/config.toml", "model = \n"),
        ("gemini", ".gemini/settings.json", "{ // mine\n}"),
    ] {
        place.write(file, text);
        let refused = place.install(1, &[client, "--yes"]);
        assert!(refused.contains("cannot be edited"), "{refused}");
        assert_eq!(place.read(file), text);
    }
    assert_eq!(place.files(".codex"), 1);
}

#[test]
fn link_to_the_settings_stays_a_link() {
    let place = ClientHome::new();
    place.write("dotfiles/gemini.json", "{}");
    std::fs::create_dir(place.home.join(".gemini")).unwrap();
    let link = place.home.join(".gemini/settings.json");
    std::os::unix::fs::symlink("../dotfiles/gemini.json", &link).unwrap();
    place.install(0, &["gemini", "--yes"]);
    assert!(link.is_symlink());
    assert!(place.read("dotfiles/gemini.json").contains("planwright"));
}

/// Claude Code rewrites its file while it runs, so it makes the change itself.
#[test]
fn claude_is_asked_to_change_its_own_settings() {
    let place = ClientHome::new();
    let bin = place.home.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let script = "#!/bin/sh\nfor word; do printf '%s\\n' \"$word\"; done >> \"$HOME/asked\"\n";
    testkit::write_program(&bin.join("claude"), script);
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let run = place.run(&["claude", "--yes"]).with_variable("PATH", &path);
    let output = run.finish();
    assert_eq!(output.exit_code(), Some(0), "{output:?}");
    assert!(output.stdout.contains("Run: "), "{output:?}");
    let asked = place.read("asked");
    let words: Vec<&str> = asked.lines().collect();
    assert_eq!(
        words[..5],
        ["mcp", "add-json", "--scope", "user", "planwright"]
    );
    let entry: serde_json::Value = serde_json::from_str(words[5]).unwrap();
    assert_eq!(entry["type"], "stdio");
    assert_eq!(place.read(".claude.json"), "");
    // Another entry of this name is replaced.
    place.write(
        ".claude.json",
        "{\"mcpServers\":{\"planwright\":{\"command\":\"old\"}}}",
    );
    let run = place.run(&["claude", "--yes"]).with_variable("PATH", &path);
    assert_eq!(run.finish().exit_code(), Some(0));
    assert!(
        place
            .read("asked")
            .contains("remove\n--scope\nuser\nplanwright\n")
    );
    testkit::write_program(
        &bin.join("claude"),
        "#!/bin/sh\necho no such option >&2\nexit 2\n",
    );
    let failed = place
        .run(&["claude", "--yes"])
        .with_variable("PATH", &path)
        .finish();
    assert_eq!(failed.exit_code(), Some(1));
    assert!(failed.stderr.contains("no such option"), "{failed:?}");
}

#[test]
fn current_repository_is_registered_for_agents() {
    let place = ClientHome::new();
    let other = place.repo.create_repository("other");
    let run = |words: &[&str]| place.run(words).with_directory(&other).finish();
    let shown = run(&["codex", "--print"]);
    assert!(
        shown.stdout.contains("Register the repository"),
        "{shown:?}"
    );
    let listed = || place.repo.run_ok(&["project", "list"]).to_string();
    assert!(!listed().contains("other"));
    assert_eq!(run(&["codex", "--yes"]).exit_code(), Some(0));
    assert!(listed().contains("other"));
    assert!(run(&["codex", "--yes"]).stdout.contains("nothing changed"));
}

#[test]
fn person_is_asked_on_a_terminal() {
    let place = ClientHome::new();
    for (answer, is_changed) in [("", false), ("n", false), ("y", true)] {
        let mut terminal = place.run(&["gemini"]).start_on_terminal();
        terminal.wait_for_text("Do this? [y/N]").type_line(answer);
        let (status, output) = terminal.wait_for_end();
        assert!(status.success(), "{output}");
        assert!(output.contains("settings.json"), "{output}");
        let text = place.read(".gemini/settings.json");
        assert_eq!(
            text.contains("planwright"),
            is_changed,
            "{answer}: {output}"
        );
    }
}

#[test]
fn agents_change_no_settings() {
    let place = ClientHome::new();
    let run = place.run(&["gemini", "--yes"]);
    let output = run.with_variable("PLANWRIGHT_RUN_KEY", "x").finish();
    assert_eq!(output.exit_code(), Some(6), "{output:?}");
    assert_eq!(place.read(".gemini/settings.json"), "");
}
