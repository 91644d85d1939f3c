//! Which model a command looks at that needs no engine: named by its place or by the flag that the
//! other commands have.

use clap::Args;

use super::engine::ModelArg;
use super::{Given, Usage};
use crate::built_in;

/// A model, typed in either way.
#[derive(Args, Debug)]
pub(crate) struct ModelArgs {
    #[arg(
        value_name = built_in::VALUE_NAME,
        help = built_in::HELP,
        long_help = built_in::LONG_HELP
    )]
    dir: Option<ModelArg>,

    /// The same, as other commands take it
    #[arg(
        long,
        value_name = built_in::VALUE_NAME,
        env = "DELTAFIN_MODEL",
        hide_env_values = true
    )]
    model: Option<ModelArg>,
}

/// A model's folder, typed in either way, for commands that the model inside this program gives nothing to do.
#[derive(Args, Debug)]
pub(crate) struct FolderArgs {
    #[arg(
        value_name = "DIR",
        help = built_in::FOLDER_HELP,
        long_help = built_in::FOLDER_LONG_HELP
    )]
    dir: Option<ModelArg>,

    /// The same, as other commands take it
    #[arg(long, value_name = "DIR", env = "DELTAFIN_MODEL", hide_env_values = true)]
    model: Option<ModelArg>,
}

impl FolderArgs {
    /// As [`ModelArgs::meaning`].
    pub(super) fn meaning(self, given: Given) -> Result<Looked, Usage> {
        ModelArgs { dir: self.dir, model: self.model }.meaning(given)
    }
}

/// A model to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    /// Which one.
    pub(crate) model: Option<ModelArg>,
    /// Who named it.
    pub(crate) given: Given,
}

impl ModelArgs {
    /// `given`: where the value of `--model` came from. One from the environment gives way to what is
    /// typed in its place, as it does to the flag.
    pub(super) fn meaning(self, given: Given) -> Result<Looked, Usage> {
        match (self.dir, given) {
            (Some(_), Given::Typed) => {
                Err(Usage("name the model once: with --model, or without".to_owned()))
            }
            (dir @ Some(_), _) => Ok(Looked { model: dir, given: Given::Typed }),
            (None, given) => Ok(Looked { model: self.model, given }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(dir: Option<ModelArg>, given: Given) -> Result<Looked, Usage> {
        let model = (given != Given::Nowhere).then_some(ModelArg::Demo);
        ModelArgs { dir, model }.meaning(given)
    }

    #[test]
    fn a_model_has_one_name() {
        let dir = || ModelArg::Directory("a".into());
        assert!(meaning(Some(dir()), Given::Typed).is_err());
        for given in [Given::Environment, Given::Nowhere] {
            let looked = meaning(Some(dir()), given);
            assert_eq!(looked.ok(), Some(Looked { model: Some(dir()), given: Given::Typed }));
        }
        for given in [Given::Typed, Given::Environment] {
            assert_eq!(
                meaning(None, given).ok(),
                Some(Looked { model: Some(ModelArg::Demo), given })
            );
        }
    }
}
