//! The one error type of the program and its exit codes.

use crate::core::event::{Failure, TurnStatus};

/// What kind of error it is; decides the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A fault of ours, or of the machine where nothing better fits.
    Internal,
    /// Bad arguments or configuration.
    Usage,
    /// The model is unreachable or failed.
    Model,
    /// Retries or steps used up.
    Unsolved,
    /// No usable sandbox.
    Sandbox,
    /// Something needed an approval that `exec` may not give.
    Approval,
    /// `--deadline` reached.
    Deadline,
    /// Interrupted by the user.
    Interrupted,
}

impl Kind {
    /// The exit code of `exec`, as the manual lists it.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Internal => 1,
            Kind::Usage => 2,
            Kind::Model => 3,
            Kind::Unsolved => 4,
            Kind::Sandbox => 5,
            Kind::Approval => 6,
            Kind::Deadline => 124,
            Kind::Interrupted => 130,
        }
    }

    /// What a turn that ended so amounts to; `None` for a good end.
    pub fn of_turn(status: TurnStatus) -> Option<Self> {
        match status {
            TurnStatus::Answered => None,
            TurnStatus::Failed | TurnStatus::StepLimit => Some(Kind::Unsolved),
            TurnStatus::Rejected => Some(Kind::Approval),
            TurnStatus::Stopped => Some(Kind::Interrupted),
            TurnStatus::ModelError => Some(Kind::Model),
            TurnStatus::SandboxError => Some(Kind::Sandbox),
        }
    }
}

/// What failed, with its kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Error {
    /// Decides the exit code.
    pub kind: Kind,
    /// What, why, and what to do.
    pub failure: Failure,
}

impl Error {
    /// An error of `kind`.
    pub fn new(kind: Kind, what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { kind, failure: Failure::new(what, why, hint) }
    }

    /// Bad arguments or configuration.
    pub fn usage(what: impl Into<String>, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(Kind::Usage, what, why, hint)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for Error {}

/// Result of the upper layers.
pub type Result<T> = std::result::Result<T, Error>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_turn_has_its_exit_code() {
        let table = [
            (TurnStatus::Answered, None),
            (TurnStatus::Failed, Some(4)),
            (TurnStatus::StepLimit, Some(4)),
            (TurnStatus::Rejected, Some(6)),
            (TurnStatus::Stopped, Some(130)),
            (TurnStatus::ModelError, Some(3)),
            (TurnStatus::SandboxError, Some(5)),
        ];
        for (status, code) in table {
            assert_eq!(Kind::of_turn(status).map(Kind::exit_code), code, "{status:?}");
        }
    }
}
