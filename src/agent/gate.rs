//! The compile gate: code that was no clean call of the model.

use super::Opening;
use crate::core::event::{Call, Problem, Reply};
use crate::model::{Candidate, Draft};
use crate::sandbox::SetupError;

/// A candidate as a call; without the gate its first reading is taken.
pub(super) fn ungated(candidate: Candidate) -> Option<Call> {
    let code = candidate.readings.into_iter().next()?;
    Some(Call {
        id: candidate.id,
        code,
        timeout_seconds: candidate.timeout_seconds,
        how: candidate.how,
        raw: candidate.raw,
    })
}

/// Lets only code through that Python compiles, where it was not a clean call.
pub(super) async fn gate(opening: Opening, draft: Draft) -> Result<Reply, SetupError> {
    let sandbox = opening.await?;
    let mut reply = draft.reply;
    for candidate in draft.candidates {
        if !candidate.gate {
            reply.calls.extend(ungated(candidate));
            continue;
        }
        let mut first_error = None;
        let mut compiled = None;
        for reading in &candidate.readings {
            match sandbox.check(reading.clone()).await?.error {
                None => {
                    compiled = Some(reading.clone());
                    break;
                }
                Some((line, message)) => {
                    first_error.get_or_insert(format!("line {line}: {message}"));
                }
            }
        }
        match compiled {
            Some(code) => reply.calls.extend(ungated(Candidate { readings: vec![code], ..candidate })),
            None if candidate.or_text => {
                reply.text.push_str(candidate.raw.as_deref().unwrap_or_default());
            }
            None => {
                let why = format!("the code does not compile, {}", first_error.unwrap_or_default());
                reply.problem = Some(Problem::BrokenCall { why });
                // Code behind it may build on it.
                break;
            }
        }
    }
    Ok(reply)
}
