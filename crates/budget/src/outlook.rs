//! What would change if there were more of something.

use crate::{Demand, Estimate, Learned, Plan, PlanError, Rates, Touched, expected_hits};
use serde::Serialize;

/// A plan with what it costs, and what it would cost on a better machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outlook {
    /// The plan.
    pub plan: Plan,
    /// What it costs.
    pub estimate: Estimate,
    /// With 1 GiB more; nothing when all that may stay does already.
    pub more_memory: Option<Estimate>,
    /// With a second drive as fast as the first.
    pub second_drive: Estimate,
    /// With the spine as int8; nothing when it is.
    pub int8_spine: Option<Estimate>,
}

/// A model in one format: what it asks for and what a token touches.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// What it asks of memory.
    pub demand: Demand,
    /// What a token touches.
    pub touched: Touched,
    /// Bytes of spine multiplied for one row, in 10^9 per second.
    pub spine_gbps: f64,
    /// Multiply-adds for many rows, in 10^9 per second.
    pub prompt_gmacs: f64,
    /// What is known of which experts it uses.
    pub learned: Learned,
    /// Of the experts that have to be read, the share that a guess begins to read early.
    pub guessed: f64,
}

impl Form {
    /// The rates of a machine for a model in this format.
    fn rates(&self, machine: &Rates) -> Rates {
        let (spine_gbps, prompt_gmacs) = (self.spine_gbps, self.prompt_gmacs);
        Rates { spine_gbps, prompt_gmacs, ..*machine }
    }
}

impl Outlook {
    /// Plans `form` within `budget` on a machine with these rates, and the same with one thing better;
    /// `int8` is nothing where `form` is that already. The rates for the spine are those of the forms.
    ///
    /// # Errors
    /// When the budget is too small for `form`.
    pub fn of(
        form: &Form,
        int8: Option<&Form>,
        budget: u64,
        rates: &Rates,
    ) -> Result<Outlook, PlanError> {
        let plan = Plan::make(&form.demand, budget)?;
        let cost = |form: &Form, budget: u64, machine: &Rates| -> Result<Estimate, PlanError> {
            let plan = Plan::make(&form.demand, budget)?;
            let rates = form.rates(machine);
            let hits = expected_hits(&form.demand, plan.kept(&form.demand), &form.learned);
            Ok(Estimate::of(&plan, &form.touched, &rates, hits, form.guessed))
        };
        let twice = Rates { drive_gbps: 2.0 * rates.drive_gbps, ..*rates };
        let more = (budget < Plan::largest(&form.demand))
            .then(|| cost(form, budget.saturating_add(1 << 30), rates));
        Ok(Outlook {
            estimate: cost(form, budget, rates)?,
            more_memory: more.transpose()?,
            second_drive: cost(form, budget, &twice)?,
            int8_spine: int8.map(|form| cost(form, budget, rates)).transpose()?,
            plan,
        })
    }
}
