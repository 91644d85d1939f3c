//! One memory for two models and the logits that wait to be compared.
//!
//! **Promise.** What both take together is the budget that was given; and the budget that a refusal names is
//! enough for both, and one byte less is refused.

use deltafin_budget::{BudgetError, Limits, Part, PlanError, whole_mib};
use deltafin_engine::{Division, EngineError};
use deltafin_store::Checkpoint;

use crate::args::EngineArgs;
use crate::failure::Failure;
use crate::load;

/// The most bytes of one model's logits that wait for the other's.
const MOST_WAITING: u64 = 128 << 20;
/// The part of the memory that both have for them.
const WAITING_SHARE: u64 = 16;

/// How a budget is shared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    whole: u64,
}

impl Share {
    /// Of what was asked for, or of what the machine has to spare.
    ///
    /// # Errors
    /// When more was asked for than there is.
    pub(super) fn of(engine: &EngineArgs) -> Result<Share, Failure> {
        let limits = Limits::read();
        if let Some(asked) = engine.memory() {
            limits.admit(asked)?;
        }
        Ok(Share { whole: engine.memory().unwrap_or_else(|| limits.auto()) })
    }

    /// Bytes of one model's logits that may wait for the other's.
    pub(super) fn waiting(self) -> u64 {
        (self.whole / WAITING_SHARE / 2).min(MOST_WAITING)
    }

    /// Bytes of each model's engine.
    pub(super) fn each(self) -> u64 {
        self.whole / 2 - self.waiting()
    }

    /// The least budget of which each has so much.
    fn least(each: u64) -> u64 {
        let (mut least, mut enough) = (0, each.saturating_mul(4));
        while least < enough {
            let whole = least + (enough - least) / 2;
            if (Share { whole }).each() >= each { enough = whole } else { least = whole + 1 }
        }
        enough
    }

    /// Refuses a budget that is too small for one of two models, before either is loaded.
    ///
    /// # Errors
    /// With the least that is enough for both.
    pub(super) fn admit(self, models: [(&Checkpoint, &EngineArgs); 2]) -> Result<(), Failure> {
        let mut most: Option<(u64, Part)> = None;
        for (checkpoint, engine) in models {
            let rooms = deltafin_engine::rooms(&checkpoint.catalog);
            let options = load::options(engine).with_coming(checkpoint);
            // What is refused whatever it is names the least.
            match Division::of(checkpoint.spec(), &rooms, &options, 0) {
                Err(EngineError::Budget(BudgetError::Plan(PlanError::TooSmall {
                    smallest,
                    part,
                    ..
                }))) => most = most.max(Some((smallest, part))),
                other => drop(other?),
            }
        }
        let Some((each, part)) = most else { return Ok(()) };
        let (budget, smallest) = (self.whole, whole_mib(Share::least(each)));
        if budget >= smallest {
            return Ok(());
        }
        let part = Part { bytes: part.bytes.saturating_mul(2), ..part };
        let refused = PlanError::TooSmall { budget, smallest, part };
        Err(EngineError::from(Limits::read().explain(refused)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_the_whole_and_the_least_is_the_least() {
        for whole in [0, 1, 1000, 83 << 20, 3 << 30, 64 << 30] {
            let share = Share { whole };
            assert!(2 * (share.each() + share.waiting()) <= whole);
            assert!(whole - 2 * (share.each() + share.waiting()) < 2);
        }
        for each in [1, 999, 41 << 20, 1 << 30, 9 << 30] {
            let whole = Share::least(each);
            assert!((Share { whole }).each() >= each, "{each}");
            assert!((Share { whole: whole - 1 }).each() < each, "{each}");
        }
    }
}
