//! Any bytes as a configuration: refused, or all dimensions are possible.

use deltafin_checkpoint::{Config, Generation};

pub(crate) fn check(data: &[u8]) {
    if let Ok(config) = Config::parse(data) {
        assert_eq!(config.spec.check(), Ok(()));
        let _ = config.spec.total_bytes();
    }
    let _ = Generation::parse(data, 1000);
}
