//! The tour of the README: every command of it works as it is written there.

use crate::shell::Shell;

const README: &str = include_str!("../../../../README.md");

#[test]
fn the_tour_of_the_readme_works_as_written() {
    let (_, after) = README.split_once("<!-- tour").unwrap();
    let (_, block) = after.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let (written, commands) = block.split_once("\nYAML\n").unwrap();
    let (opening, yaml) = written.split_once('\n').unwrap();
    assert_eq!(opening, "cat > tidy.yaml <<'YAML'");
    let shell = Shell::new();
    let directory = shell.write("tidy.yaml", yaml).parent().unwrap().to_owned();
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
        let said = shell.run(&words[1..]).within(&directory).finish();
        assert_eq!(said.code(), Some(expected), "{line}: {said:?}");
        ran += 1;
    }
    assert!(ran >= 10, "the tour lost its commands");
}
