//! The commands in docs/engine.md and docs/agents.md work as they are written there.

use crate::shell::TranscriptShell;

const ENGINE_PAGE: &str = include_str!("../../../../docs/engine.md");
const AGENTS_PAGE: &str = include_str!("../../../../docs/agents.md");

/// The first block of commands after a mark.
pub fn find_block_after<'a>(page: &'a str, mark: &str) -> &'a str {
    let (_, after) = page.split_once(mark).unwrap();
    let (_, block) = after.split_once("```sh\n").unwrap();
    block.split_once("```").unwrap().0
}

/// The lines as a script that goes on only while each ends as its comment promises: `# exit 5: why`.
pub fn make_script(block: &str) -> String {
    let mut script = String::new();
    for line in block.lines() {
        let promised = line.split_once("# exit ").map(|(_, rest)| &rest[..1]);
        match promised {
            Some(code) => {
                let command = line.split(" # ").next().unwrap();
                script.push_str(&format!("{command} && exit 1 || [ $? -eq {code} ]\n"));
            }
            None => script.push_str(&format!("{line}\n")),
        }
    }
    script
}

#[test]
fn the_tour_of_the_engine_page_works_as_written() {
    let block = find_block_after(ENGINE_PAGE, "<!-- tour");
    let (written, commands) = block.split_once("\nYAML\n").unwrap();
    let (opening, yaml) = written.split_once('\n').unwrap();
    assert_eq!(opening, "cat > tidy.yaml <<'YAML'");
    let shell = TranscriptShell::new();
    let directory = shell
        .write_file("tidy.yaml", yaml)
        .parent()
        .unwrap()
        .to_owned();
    let mut ran = 0;
    for line in commands.lines() {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let promised = comment
            .trim()
            .strip_prefix("exit ")
            .and_then(|rest| rest.split(':').next());
        let expected: i32 = promised.map_or(0, |code| code.parse().unwrap());
        let words: Vec<String> = command
            .split('"')
            .enumerate()
            .flat_map(|(index, part)| match index % 2 {
                0 => part.split_whitespace().map(str::to_owned).collect(),
                _ => vec![part.to_owned()],
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(words[0], "planwright", "{line}");
        let said = shell.run(&words[1..]).with_directory(&directory).finish();
        assert_eq!(said.exit_code(), Some(expected), "{line}: {said:?}");
        ran += 1;
    }
    assert!(ran >= 10, "the tour lost its commands");
}

/// The commands on a repository, run by a shell as they are written.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the page shows what is typed into a shell"
)]
fn the_landing_of_the_engine_page_works_as_written() {
    let block = find_block_after(ENGINE_PAGE, "<!-- landing");
    let place = tempfile::TempDir::with_prefix("planwright-tour-").unwrap();
    let programs = place.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    std::os::unix::fs::symlink(
        env!("CARGO_BIN_EXE_planwright"),
        programs.join("planwright"),
    )
    .unwrap();
    let run = |script: &str| {
        let output = std::process::Command::new("/bin/sh")
            .args(["-e", "-c", script])
            .env_clear()
            .env("LLVM_PROFILE_FILE", "/dev/null")
            .env(
                "PATH",
                format!("{}:/usr/bin:/bin:/usr/local/bin", programs.display()),
            )
            .env("HOME", place.path())
            .env("PLANWRIGHT_HOME", place.path().join("home"))
            .current_dir(place.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {output:?}");
    };
    run(
        "git init -q -b main shop && cd shop && git config user.name Ada \
         && git config user.email ada@example.org && git commit -q --allow-empty -m start",
    );
    run(
        "printf 'name: tidy\\ndescription: Tidy\\nactor: me\\narguments:\\n  - name: area\\n    type: string\\n' \
         > tidy.yaml && planwright action create --config tidy.yaml",
    );
    let mut ran = 0;
    for line in block.lines() {
        run(&make_script(line));
        ran += 1;
        let landed = place.path().join("shop/NOTES.md");
        if line.starts_with("planwright apply") {
            let is_refused = line.contains("# exit ");
            assert_eq!(landed.exists(), !is_refused, "{line}");
        }
        if line.starts_with("planwright apply") && landed.exists() {
            assert_eq!(std::fs::read_to_string(&landed).unwrap(), "Tidied.\n");
        }
        if line.starts_with("planwright undo") {
            assert!(!landed.exists());
        }
    }
    assert!(ran >= 10, "the landing lost its commands");
}

/// The lines about an agent of one's own, run by a shell in a repository as they are written.
#[test]
#[allow(
    clippy::disallowed_methods,
    reason = "the page shows what is typed into a shell"
)]
fn the_own_script_of_the_agents_page_works_as_written() {
    let block = find_block_after(AGENTS_PAGE, "<!-- own script");
    let place = tempfile::TempDir::with_prefix("planwright-tour-").unwrap();
    let programs = place.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let program = programs.join("planwright");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_planwright"), program).unwrap();
    let mut script = "git init -q -b main shop && cd shop && git config user.name Ada \
                      && git config user.email ada@example.org \
                      && git commit -q --allow-empty -m start\n"
        .to_owned();
    script.push_str(&make_script(block));
    let output = std::process::Command::new("/bin/sh")
        .args(["-e", "-c", &script])
        .env_clear()
        .env(
            "PATH",
            format!("{}:/usr/bin:/bin:/usr/local/bin", programs.display()),
        )
        .env("HOME", place.path())
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {output:?}");
    let done = std::fs::read_to_string(place.path().join("shop/TODO.md")).unwrap();
    assert_eq!(done, "- Water the plants\n- Feed the cat\n");
}
