//! Half-precision floats.

/// The nearest half, ties to even; infinite from 65520 on.
pub(crate) fn from_f32(value: f32) -> u16 {
    let (sign, magnitude) = (value.to_bits() >> 16 & 0x8000, value.to_bits() & 0x7fff_ffff);
    let half = match magnitude {
        0x7f80_0001.. => 0x7e00,
        0x477f_f000.. => 0x7c00,
        // Normal: 13 bits of the fraction go, and the exponent's bias shrinks from 127 to 15.
        0x3880_0000.. => {
            let odd = magnitude >> 13 & 1;
            ((magnitude + 0xfff + odd) >> 13) - ((127 - 15) << 10)
        }
        // Subnormal: a count of 2^-24. The product is exact.
        _ => (f32::from_bits(magnitude) * 16_777_216.0).round_ties_even() as u32,
    };
    (sign | half) as u16
}

/// The value of a half.
pub(crate) fn to_f32(half: u16) -> f32 {
    let (sign, magnitude) = (u32::from(half & 0x8000) << 16, u32::from(half & 0x7fff));
    let bits = match magnitude {
        0..0x400 => (magnitude as f32 / 16_777_216.0).to_bits(),
        0x400..0x7c00 => (magnitude << 13) + ((127 - 15) << 23),
        _ => 0x7f80_0000 | magnitude << 13,
    };
    f32::from_bits(sign | bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back() {
        for half in 0..=u16::MAX {
            let value = to_f32(half);
            match value.is_nan() {
                true => assert!(to_f32(from_f32(value)).is_nan()),
                false => assert_eq!(from_f32(value), half),
            }
        }
    }

    /// Between two neighbours: the nearer one, and the even one in the middle.
    #[test]
    fn rounding_is_to_the_nearest_and_to_even() {
        for low in 0..0x7c00u16 {
            let high = low + 1;
            // What would follow the largest finite half.
            let above = if high == 0x7c00 { 65536.0 } else { to_f32(high) };
            let middle = (to_f32(low) + above) / 2.0;
            let even = if low % 2 == 0 { low } else { high };
            assert_eq!(from_f32(middle), even, "{low:04x}");
            assert_eq!(from_f32(middle.next_down()), low, "{low:04x}");
            assert_eq!(from_f32(middle.next_up()), high, "{low:04x}");
            assert_eq!(from_f32(-middle), even | 0x8000, "{low:04x}");
        }
    }

    #[test]
    fn what_is_not_finite_stays_so() {
        assert_eq!(from_f32(f32::INFINITY), 0x7c00);
        assert_eq!(from_f32(f32::MAX), 0x7c00);
        assert_eq!(from_f32(-f32::MIN_POSITIVE), 0x8000);
    }
}
