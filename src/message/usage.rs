//! Tokens, as the provider counts them.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Tokens of one reply, or of many together. The four kinds of input are disjoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input that was neither read from nor written to the cache.
    pub input_tokens: u64,
    /// Output, thinking included.
    pub output_tokens: u64,
    /// Input written to the cache, for five minutes and for an hour together.
    pub cache_creation_input_tokens: u64,
    /// Of these, the ones written for an hour, which cost more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_creation_1h_input_tokens: u64,
    /// Input read from the cache.
    pub cache_read_input_tokens: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Usage {
    /// Everything that was sent.
    pub fn prompt_tokens(&self) -> u64 {
        self.input_tokens + self.cache_creation_input_tokens + self.cache_read_input_tokens
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_creation_input_tokens += other.cache_creation_input_tokens;
        self.cache_creation_1h_input_tokens += other.cache_creation_1h_input_tokens;
        self.cache_read_input_tokens += other.cache_read_input_tokens;
    }
}
