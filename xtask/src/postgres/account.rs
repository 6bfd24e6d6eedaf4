//! The user that the server runs as. PostgreSQL refuses to run as root, which most containers use.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerAccount {
    /// The user who runs this program.
    CurrentUser,
    /// An unprivileged user, because this program runs as root.
    OtherUser { user: u32, group: u32 },
}

impl ServerAccount {
    /// The current user, unless that is root.
    pub fn choose() -> anyhow::Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Ok(Self::CurrentUser);
        }
        let users = fs::read_to_string("/etc/passwd").context("could not read /etc/passwd")?;
        match find_unprivileged(&users) {
            Some(account) => Ok(account),
            None => bail!(
                "PostgreSQL cannot run as root, and there is no user `postgres` or `nobody` to run it as"
            ),
        }
    }

    /// Makes `command` run as this user.
    pub fn apply_to(self, command: &mut Command) {
        if let Self::OtherUser { user, group } = self {
            command.uid(user).gid(group);
        }
    }

    /// Makes this user the owner of `path`.
    pub fn give_path(self, path: &Path) -> io::Result<()> {
        match self {
            Self::CurrentUser => Ok(()),
            Self::OtherUser { user, group } => chown(path, Some(user), Some(group)),
        }
    }
}

/// Finds a user in the text of `/etc/passwd`.
fn find_unprivileged(users: &str) -> Option<ServerAccount> {
    ["postgres", "nobody"]
        .iter()
        .find_map(|name| users.lines().find_map(|line| parse_passwd_line(name, line)))
}

fn parse_passwd_line(name: &str, line: &str) -> Option<ServerAccount> {
    let mut fields = line.split(':');
    if fields.next()? != name {
        return None;
    }
    let user = fields.nth(1)?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    (user != 0).then_some(ServerAccount::OtherUser { user, group })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_user(users: &str, expected: Option<(u32, u32)>) {
        let expected = expected.map(|(user, group)| ServerAccount::OtherUser { user, group });
        assert_eq!(find_unprivileged(users), expected);
    }

    #[test]
    fn postgres_is_preferred_to_nobody_and_root_is_never_chosen() {
        let root = "root:x:0:0:root:/root:/bin/bash\n";
        let nobody = "nobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n";
        let postgres = "postgres:x:101:104:PostgreSQL:/var/lib/postgresql:/bin/bash\n";
        check_user(&[root, nobody, postgres].concat(), Some((101, 104)));
        check_user(&[root, nobody].concat(), Some((65534, 65533)));
        check_user(root, None);
        check_user("postgres:x:0:0::/:/bin/sh\n", None);
        check_user("nobody:*\n", None);
    }
}
