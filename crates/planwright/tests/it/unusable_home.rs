//! A home that cannot be used: what is wrong, where, and what to do.

use std::os::unix::fs::PermissionsExt;

use crate::shop_repository::ShopRepository;

#[test]
fn a_home_that_is_a_file_is_named() {
    let repo = ShopRepository::new();
    let file = repo.write_file_beside("home", "not a directory\n");
    for (home, words) in [
        (file.clone(), &["list"][..]),
        (format!("{file}/below"), &["run", "Do it at once"]),
        (file.clone(), &["doctor"]),
        (file.clone(), &["config", "set", "profile", "auto"]),
    ] {
        let run = repo.program.run(words.to_vec());
        let said = run.with_variable("PLANWRIGHT_HOME", &home).finish();
        assert_eq!(said.exit_code(), Some(1), "{words:?}: {said:?}");
        let says = said.stderr.lines().next().unwrap();
        let expected = format!("error: Planwright's home {home} is not a directory");
        assert!(says.starts_with(&expected), "{words:?}: {said:?}");
        assert!(said.stderr.contains("Set PLANWRIGHT_HOME to"), "{said:?}");
        assert!(!said.stderr.contains("os error"), "{said:?}");
    }
}

#[test]
fn a_home_that_nobody_may_write_is_named() {
    let mut repo = ShopRepository::new();
    if !repo.hand_to_ordinary_user() {
        return;
    }
    let home = repo.program.home().to_owned();
    let set_mode = |mode| {
        std::fs::set_permissions(&home, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let check = |words: &[&str], code| {
        let said = repo.program.run(words.to_vec()).finish();
        let shown = format!("{}{}", said.stdout, said.stderr);
        assert_eq!(said.exit_code(), Some(code), "{words:?}: {said:?}");
        assert!(shown.contains(home.to_str().unwrap()), "{said:?}");
        shown
    };
    std::fs::remove_dir_all(home.join("present")).unwrap_or_default();
    set_mode(0o500);
    let doctor = check(&["doctor"], 1);
    let line = doctor.lines().find(|line| line.contains("home")).unwrap();
    assert!(line.starts_with("bad"), "{doctor}");
    assert!(line.contains("cannot be written"), "{doctor}");
    assert!(doctor.contains("PLANWRIGHT_HOME"), "{doctor}");
    for words in [
        &["work", "--drain"][..],
        &["config", "set", "profile", "auto"],
    ] {
        let shown = check(words, 1);
        assert!(shown.contains("permission"), "{shown}");
        assert!(shown.contains("hint: "), "{shown}");
    }
    set_mode(0o700);
    check(&["doctor"], 0);
}
