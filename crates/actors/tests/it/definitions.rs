//! Validation of definitions, and the presets.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use plan::actor::{
    AcpCommand, ActorDefinition, ActorKind, ActorOutputFormat, ActorStdin, CommandLine,
};
use plan::guard::ToolGuards;
use plan::time::Span;
use planwright_actors::{
    ActorDefinitionError, all_presets, check_definition, find_installed_program, find_preset,
};

fn command_definition(line: CommandLine) -> ActorDefinition {
    ActorDefinition {
        name: "mine".parse().unwrap(),
        description: None,
        kind: ActorKind::Command(Box::new(line)),
    }
}

fn to_strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[track_caller]
fn assert_refused(line: CommandLine, expected: &str) {
    let problem: ActorDefinitionError =
        check_definition(&command_definition(line)).expect_err(expected);
    assert_eq!(problem.to_string(), expected);
}

#[test]
fn guards_need_an_output_with_tool_calls() {
    let with_text_output = CommandLine {
        command: to_strings(&["a"]),
        guards: ToolGuards {
            calls: Some(3),
            ..ToolGuards::default()
        },
        ..CommandLine::default()
    };
    for output in [ActorOutputFormat::ClaudeJson, ActorOutputFormat::CodexJson] {
        let with_json_output = CommandLine {
            output,
            ..with_text_output.clone()
        };
        assert_eq!(
            check_definition(&command_definition(with_json_output)),
            Ok(())
        );
    }
    assert_refused(
        with_text_output,
        "`guards` need an agent that reports its tool calls: `output` must not be text",
    );
}

#[test]
fn invalid_definitions_are_refused() {
    let command = |words: &[&str]| CommandLine {
        command: to_strings(words),
        ..CommandLine::default()
    };
    assert_refused(command(&[]), "`command` names no program");
    assert_refused(command(&[" "]), "`command` names no program");
    assert_refused(
        command(&["{sandbox}"]),
        "`command` starts with `{sandbox}`: the program cannot be a placeholder",
    );
    assert_refused(
        command(&["a", "{promt}"]),
        "`command`: unknown placeholder `{promt}`: use {prompt}, {session} or {sandbox}",
    );
    assert_refused(
        command(&["a", "--say={prompt}"]),
        "`command`: `{prompt}` must be a separate argument, not part of `--say={prompt}`",
    );
    assert_refused(
        command(&["a", "{session}"]),
        "`command`: `{session}` can be used only in `resume`",
    );
    assert_refused(
        command(&["a", "b\0c"]),
        "`command` contains a NUL character",
    );
    assert_refused(
        CommandLine {
            strategize: Some(vec![]),
            ..command(&["a"])
        },
        "`strategize` names no program",
    );
    let env = |name: &str| CommandLine {
        env: to_strings(&[name]),
        ..command(&["a"])
    };
    assert_refused(
        env("A-B"),
        "`env`: `A-B` is not a variable name: use letters, digits and `_`",
    );
    assert_refused(
        env("PLANWRIGHT_STORE"),
        "`env`: `PLANWRIGHT_STORE` is set by Planwright and cannot be defined here",
    );
    let writable = |path: &str| CommandLine {
        writable: to_strings(&[path]),
        ..command(&["a"])
    };
    assert_refused(
        writable("cache"),
        "`writable`: `cache` is relative: start it with `/` or `~/`",
    );
    for everything in ["/", "~", "~/", "/./", "~/a/../.."] {
        assert_refused(
            writable(everything),
            &format!(
                "`writable`: `{everything}` is too broad: list the paths inside it that are needed"
            ),
        );
    }
    assert_refused(
        CommandLine {
            timeout: Some(Span(0)),
            ..command(&["a"])
        },
        "`timeout` must be greater than zero",
    );
}

#[test]
fn valid_definitions_are_accepted() {
    let line = CommandLine {
        command: to_strings(&["a", "{prompt}", "{sandbox}", "{}", r#"{"json": 1}"#]),
        resume: Some(to_strings(&["a", "--resume", "{session}", "{prompt}"])),
        env: to_strings(&["KEY", "_x9"]),
        writable: to_strings(&["~/.a", "/var/cache/a"]),
        timeout: Some(Span::from_seconds(1)),
        ..CommandLine::default()
    };
    assert_eq!(check_definition(&command_definition(line)), Ok(()));
}

#[test]
fn every_preset_is_valid_and_passes_the_prompt_once() {
    assert!(all_presets().is_sorted_by_key(|preset| preset.name.to_string()));
    for preset in all_presets() {
        check_definition(preset).unwrap_or_else(|problem| panic!("{}: {problem}", preset.name));
        assert!(preset.description.is_some(), "{}", preset.name);
        let is_variant = planwright_actors::is_preset_variant(&preset.name);
        assert_eq!(is_variant, matches!(preset.kind, ActorKind::Acp(_)));
        if is_variant {
            continue;
        }
        let ActorKind::Command(line) = &preset.kind else {
            panic!("{} starts no program", preset.name);
        };
        assert_eq!(line.command[0], preset.name.to_string());
        let forms = [
            Some(&line.command),
            line.strategize.as_ref(),
            line.resume.as_ref(),
        ];
        for form in forms.into_iter().flatten() {
            let as_argument = form.iter().filter(|word| *word == "{prompt}").count();
            let as_input = usize::from(line.stdin == ActorStdin::Prompt);
            assert_eq!(as_argument + as_input, 1, "{}: {form:?}", preset.name);
        }
        if let Some(resume) = &line.resume {
            assert!(resume.contains(&"{session}".to_owned()), "{}", preset.name);
        }
    }
    assert!(find_preset("claude").is_some());
    assert!(find_preset("nobody").is_none());
}

#[test]
fn acp_command_has_no_prompt_and_is_checked_like_any_other() {
    let refused = |change: &dyn Fn(&mut AcpCommand)| {
        let mut agent = AcpCommand {
            command: vec!["agent".into()],
            ..AcpCommand::default()
        };
        change(&mut agent);
        let definition = ActorDefinition {
            name: "agent".parse().unwrap(),
            description: None,
            kind: ActorKind::Acp(Box::new(agent)),
        };
        check_definition(&definition).unwrap_err()
    };
    let with_prompt = refused(&|agent| agent.command.push("{prompt}".into()));
    assert_eq!(with_prompt, ActorDefinitionError::PromptInAcpCommand);
    assert_eq!(with_prompt.key(), "command");
    assert_eq!(refused(&|agent| agent.command.clear()).key(), "command");
    let with_session = refused(&|agent| agent.command.push("{session}".into()));
    assert_eq!(with_session.key(), "command");
    assert_eq!(
        refused(&|agent| agent.env = vec!["A B".into()]).key(),
        "env"
    );
    assert_eq!(
        refused(&|agent| agent.mode = Some("a\0".into())).key(),
        "mode"
    );
}

#[test]
fn program_is_found_in_the_path_if_it_is_executable() {
    let directory = tempfile::tempdir().unwrap();
    let program = |directory: &Path, mode: u32| {
        fs::create_dir_all(directory).unwrap();
        let path = directory.join("claude");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let (one, two) = (directory.path().join("one"), directory.path().join("two"));
    program(&one, 0o644);
    let executable = program(&two, 0o755);
    let path = std::env::join_paths([Path::new("relative"), &one, &two]).unwrap();
    let claude = find_preset("claude").unwrap();
    assert_eq!(
        find_installed_program(&claude, &path),
        Some(executable.clone())
    );
    assert_eq!(find_installed_program(&claude, one.as_os_str()), None);

    let absolute = command_definition(CommandLine {
        command: vec![executable.to_string_lossy().into_owned()],
        ..CommandLine::default()
    });
    assert_eq!(
        find_installed_program(&absolute, "".as_ref()),
        Some(executable)
    );
    let human = ActorDefinition {
        name: "me".parse().unwrap(),
        description: None,
        kind: ActorKind::Human { timeout: None },
    };
    assert_eq!(find_installed_program(&human, &path), None);
}
