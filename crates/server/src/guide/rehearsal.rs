//! Following a form before anything depends on it.
//!
//! Promise: a form that is too complex to follow already where it begins is found out before its request waits.
//!
//! Places deeper within are not visited, for there may be any number of them. How many properties come into question
//! at each is bounded by what is counted beforehand, and the work of a token that meets one for the first time is
//! bounded as that of any other; it is done on the engine's thread, where nobody else waits for it.

use std::time::{Duration, Instant};

use llguidance::Matcher;
use llguidance::toktrie::SimpleVob;

use super::vocabulary::words;

/// Ids that are followed on each way.
const STEPS: usize = 16;
/// After this long no further step is taken: all that follows is known to be slow, and can be followed.
const PATIENCE: Duration = Duration::from_millis(500);

/// Follows a form on two ways: along the first of its possibilities, and along the last.
///
/// # Errors
/// When it is too complex to follow.
pub(super) fn follow(matcher: &Matcher, landmarks: &[u32]) -> Result<(), String> {
    let began = Instant::now();
    for choose in [SimpleVob::first_bit_set, last_bit_set] {
        let mut trial = matcher.clone();
        for _ in 0..STEPS {
            if trial.is_stopped() || began.elapsed() > PATIENCE {
                break;
            }
            let mask = trial.compute_mask().map_err(|error| words(&error))?;
            let landmark = landmarks.iter().copied().find(|id| mask.is_allowed(*id));
            let Some(id) = landmark.or_else(|| choose(&mask).map(|id| id as u32)) else { break };
            trial.consume_token(id).map_err(|error| words(&error))?;
        }
    }
    Ok(())
}

fn last_bit_set(mask: &SimpleVob) -> Option<usize> {
    mask.iter().last().map(|id| id as usize)
}
