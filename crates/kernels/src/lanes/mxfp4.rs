//! Tables of MXFP4 weights, one row per scale byte.
//!
//! On AMD Zen 4 a table that already carries the scale costs nothing: it is the memory operand of
//! the permute that looks the sixteen codes up, and 16 KiB of tables stay in the first-level cache.

/// `codes[scale][code]`: the value of a four-bit code under a scale byte.
#[repr(C, align(64))]
pub(crate) struct Floats(pub(crate) [[f32; 16]; 256]);

/// The same values for byte shuffles. They fit bf16, so two bytes say everything:
/// `[0]` holds the lower, `[1]` the upper byte of each code's bf16.
#[repr(C, align(32))]
pub(crate) struct Bytes(pub(crate) [[[u8; 16]; 2]; 256]);

pub(crate) static FLOATS: Floats = Floats(floats());
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
pub(crate) static BYTES: Bytes = Bytes(bytes());

/// Magnitudes of the codes 0..=7; bit 3 is the sign.
const E2M1: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// `2^(scale - 127)`: subnormal for 0, NaN for 255.
const fn power(scale: usize) -> f32 {
    match scale {
        0 => f32::from_bits(0x0040_0000),
        255 => f32::NAN,
        _ => f32::from_bits((scale as u32) << 23),
    }
}

const fn floats() -> [[f32; 16]; 256] {
    let mut table = [[0.0; 16]; 256];
    let mut i = 0;
    while i < 256 * 16 {
        let magnitude = E2M1[i % 8] * power(i / 16);
        table[i / 16][i % 16] = if i % 16 < 8 { magnitude } else { -magnitude };
        i += 1;
    }
    table
}

const fn bytes() -> [[[u8; 16]; 2]; 256] {
    let floats = floats();
    let mut table = [[[0; 16]; 2]; 256];
    let mut i = 0;
    while i < 256 * 16 {
        let bits = floats[i / 16][i % 16].to_bits();
        table[i / 16][0][i % 16] = (bits >> 16) as u8;
        table[i / 16][1][i % 16] = (bits >> 24) as u8;
        i += 1;
    }
    table
}
