//! How a model fails: named by the first part of the path.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFault {
    None,
    /// Every request is answered with this status.
    Status(u16),
    /// The first requests are answered, and those after a tool call with status 500.
    Midway,
    /// No answer at all, on an open connection.
    Hang,
    /// The connection is closed in the middle of a streamed answer.
    Cut,
    /// The answer is empty, and ends as usual.
    Mute,
}

impl ModelFault {
    /// `/500/v1/messages` is the fault 500 on `/v1/messages`. Without a fault, the path is unchanged.
    pub fn split_path(path: &str) -> (Self, &str) {
        let path = path.split('?').next().unwrap_or_default();
        let Some(rest) = path.strip_prefix('/') else {
            return (Self::None, path);
        };
        let (word, _) = rest.split_once('/').unwrap_or((rest, ""));
        let fault = match word {
            "ok" => Self::None,
            "midway" => Self::Midway,
            "hang" => Self::Hang,
            "cut" => Self::Cut,
            "mute" => Self::Mute,
            _ => match word.parse() {
                Ok(status @ 400..600) => Self::Status(status),
                Ok(_) | Err(_) => return (Self::None, path),
            },
        };
        (fault, &rest[word.len()..])
    }
}

impl fmt::Display for ModelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("ok"),
            Self::Status(status) => write!(f, "{status}"),
            Self::Midway => f.write_str("midway"),
            Self::Hang => f.write_str("hang"),
            Self::Cut => f.write_str("cut"),
            Self::Mute => f.write_str("mute"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_of_a_path_names_the_fault() {
        for (path, fault, rest) in [
            ("/v1/messages?beta=true", ModelFault::None, "/v1/messages"),
            ("/ok/v1/messages", ModelFault::None, "/v1/messages"),
            ("/503/v1/messages", ModelFault::Status(503), "/v1/messages"),
            (
                "/hang/v1beta/models/m:x",
                ModelFault::Hang,
                "/v1beta/models/m:x",
            ),
            ("/200/v1/messages", ModelFault::None, "/200/v1/messages"),
            ("/cut", ModelFault::Cut, ""),
        ] {
            assert_eq!(ModelFault::split_path(path), (fault, rest), "{path}");
        }
    }
}
