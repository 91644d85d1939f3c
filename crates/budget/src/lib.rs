//! What a memory budget buys.
//!
//! **Promise.** `--memory SIZE` is a bound on *peak resident memory*: what `VmHWM` of the process
//! says, which is program text and data that were touched, stacks, heap, and every slab. The page
//! cache is not counted: weights are read past it, and where the system keeps pages of files anyway it
//! gives them up before anything of ours. Address space is not counted either.
//!
//! Five questions lead through the crate:
//!
//! * *How much memory is there?* — [`Limits`], the least of what the machine, the control groups and
//!   the process's own limits leave, and what `auto` means: that, less a reserve.
//! * *What is asked of it?* — [`Demand`], from a catalog or from a model's dimensions alone.
//! * *How is it spent?* — [`Plan::make`], a pure function of demand and budget.
//! * *How fast will that be?* — [`Estimate`] from the plan and the machine's [`Rates`], and
//!   [`Outlook`] for what more memory, a second drive or a smaller spine would change.
//! * *What if the system runs short later?* — [`Pressure`], and [`Level::give_way`] for how the expert
//!   cache does.
//!
//! The plan is pure. Reading the machine is in `limits`, `group` and `pressure`, behind a folder that
//! tests replace.
#![forbid(unsafe_code)]

mod cost;
mod demand;
mod group;
mod hits;
mod limits;
mod outlook;
mod plan;
mod pressure;
mod refusal;
mod size;
mod words;
mod workspace;

pub use cost::{Estimate, GUESSED, Limit, PROMPT_ROWS, Rates, Touched};
pub use demand::{Demand, HUGE_PAGE, READ_ALIGN, Rooms, SpineFormat, Usage, room};
pub use group::Group;
pub use hits::{Learned, expected_hits};
pub use limits::{Bound, BudgetError, Limits, TooLarge, Usable, peak_resident_bytes, reserve};
pub use outlook::{Form, Outlook};
pub use plan::Plan;
pub use pressure::{Level, Pressure};
pub use refusal::{Part, PlanError, Purpose};
pub use size::{Size, whole_mib};
pub use workspace::Workspace;

#[cfg(test)]
mod tests;
