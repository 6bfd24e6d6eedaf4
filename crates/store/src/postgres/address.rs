//! Parses the connection string and removes credentials from what is shown.

use std::fmt::Write as _;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::error::{format_error_chain, unusable_error};
use crate::StoreError;

pub(super) struct PostgresAddress {
    /// For the driver. Contains the password; its `Debug` output does not.
    pub config: Config,
    /// For messages: without password and options.
    pub place: String,
}

/// The time one server has to accept a connection, unless the connection string sets it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

impl PostgresAddress {
    /// Parses `postgres://user:password@host:port/database?…` or `host=… dbname=…`.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        // Our `require` also verifies the certificate, as `verify-full` does in PostgreSQL's own
        // programs.
        let strict = url.replace("sslmode=verify-full", "sslmode=require");
        let strict = strict.replace("sslmode=verify-ca", "sslmode=require");
        let mut config: Config = match strict.parse() {
            Ok(config) => config,
            Err(error) => {
                return Err(unusable_error(
                    &redact_password(url),
                    format_error_chain(&error),
                ));
            }
        };
        let place = display_address(&config);
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(unusable_error(&place, "the address has no host".to_owned()));
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("planwright");
        }
        // Several hosts could include a standby, which lags behind: recent commits would be missing
        // there.
        if config.get_hosts().len().max(config.get_hostaddrs().len()) > 1 {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        // If the server's machine disappears, no packet arrives, not even a FIN. Keepalives and the
        // TCP user timeout detect that.
        config
            .keepalives_idle(Duration::from_secs(30))
            .keepalives_interval(Duration::from_secs(10))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(30));
        Ok(Self { config, place })
    }

    /// Checks whether the connection must be encrypted and the server's certificate verified.
    pub fn needs_tls(&self) -> bool {
        // A mode that a later driver adds counts as strict.
        !matches!(
            self.config.get_ssl_mode(),
            SslMode::Disable | SslMode::Prefer
        )
    }
}

/// Formats the address as a URL without password and options.
fn display_address(config: &Config) -> String {
    let mut text = String::from("postgres://");
    if let Some(user) = config.get_user() {
        let _ = write!(text, "{user}@");
    }
    let ports = config.get_ports();
    let names = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let names: Vec<String> = if config.get_hosts().is_empty() {
        config
            .get_hostaddrs()
            .iter()
            .map(ToString::to_string)
            .collect()
    } else {
        names.collect()
    };
    for (index, name) in names.iter().enumerate() {
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let comma = if index > 0 { "," } else { "" };
        let _ = write!(text, "{comma}{name}:{port}");
    }
    if let Some(database) = config.get_dbname() {
        let _ = write!(text, "/{database}");
    }
    text
}

/// Returns an invalid connection string without anything that could be a password.
fn redact_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return "the connection string".to_owned();
    };
    // Up to the last `@`, because a password may contain one unescaped.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    format!("{scheme}://{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_address_has_no_password() {
        let check = |url: &str, expected: &str| {
            let address = PostgresAddress::parse(url).unwrap();
            assert_eq!(address.place, expected);
            assert!(!format!("{:?}", address.config).contains("swordfish"));
        };
        check(
            "postgres://ada:swordfish@db.example:5433/plans?sslmode=disable&application_name=x",
            "postgres://ada@db.example:5433/plans",
        );
        check(
            "host=db.example user=ada password=swordfish dbname=plans",
            "postgres://ada@db.example:5432/plans",
        );
        check(
            "postgresql://ada:swordfish@one:1,two:2/plans",
            "postgres://ada@one:1,two:2/plans",
        );
    }

    #[test]
    fn an_invalid_address_is_shown_without_password() {
        for url in [
            "postgres://ada:swordfish@db.example/plans?unheard=of",
            "postgres://ada:sword@fish@db.example:port/plans",
            "postgres://db.example:port/plans?password=swordfish",
            "host=db.example password=swordfish port=x",
            "postgres:///plans?password=swordfish",
        ] {
            let Err(error) = PostgresAddress::parse(url) else {
                panic!("{url} was accepted")
            };
            let shown = format!("{error} {error:?}");
            assert!(matches!(error, StoreError::Unusable { .. }), "{shown}");
            assert!(!shown.contains("sword"), "{shown}");
        }
    }
}
