//! Rows of bfloat16 to signed bytes with one half-precision scale each.
//!
//! A row's scale is its largest magnitude divided by 127, rounded to half precision *first*; the
//! codes are its elements divided by that rounded scale, rounded half to even, and clamped to ±127.
//! So the stored scale is the one the codes were made for. Both divisions are single-precision and
//! still exact roundings of the true quotients: the operands are too short for a second rounding to
//! matter (the tests hold them against integers).

use crate::half;

/// The largest code. −128 is not used: the range is symmetric.
const MOST: f32 = 127.0;
/// Added to a number of small magnitude, leaves its nearest integer, ties to even, in the low bits.
const ROUNDING: f32 = 12_582_912.0; // 1.5 × 2^23
/// Bits of a bfloat16 without its sign; beyond this it is not finite.
const INFINITE: u16 = 0x7f80;

/// A row whose scale half precision cannot hold: too large, too small, or not a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unscalable {
    /// The row among those that were given.
    pub(crate) row: usize,
}

/// Appends the codes and scales of `rows`, little-endian bfloat16 of `columns` elements each.
pub(crate) fn rows(
    rows: &[u8],
    columns: usize,
    codes: &mut Vec<u8>,
    scales: &mut Vec<u8>,
) -> Result<(), Unscalable> {
    for (row, elements) in rows.chunks_exact(2 * columns).enumerate() {
        let (elements, _) = elements.as_chunks::<2>();
        let scale = scale(largest(elements)).ok_or(Unscalable { row })?;
        scales.extend_from_slice(&scale.to_le_bytes());
        let first = codes.len();
        codes.resize(first + columns, 0);
        if scale != 0 {
            encode(elements, half::to_f32(scale), &mut codes[first..]);
        }
    }
    Ok(())
}

/// The largest magnitude, as the bits of a bfloat16.
fn largest(elements: &[[u8; 2]]) -> u16 {
    let magnitude = |element: &[u8; 2]| (u16::from_le_bytes(*element) & 0x7fff) as i16;
    elements.iter().map(magnitude).fold(0, i16::max) as u16
}

/// The scale of a row with this largest magnitude; nothing where half precision has none.
fn scale(largest: u16) -> Option<u16> {
    if largest >= INFINITE {
        return None;
    }
    let scale = half::from_f32(widen(largest) / MOST);
    let held = largest == 0 || (scale != 0 && half::to_f32(scale).is_finite());
    held.then_some(scale)
}

fn encode(elements: &[[u8; 2]], scale: f32, codes: &mut [u8]) {
    for (code, element) in codes.iter_mut().zip(elements) {
        let quotient = widen(u16::from_le_bytes(*element)) / scale;
        // Clamping first comes to the same, for the bounds are integers.
        *code = (quotient.clamp(-MOST, MOST) + ROUNDING).to_bits() as u8;
    }
}

fn widen(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bf16(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).collect()
    }

    fn quantized(values: &[f32], columns: usize) -> Result<(Vec<i8>, Vec<f32>), Unscalable> {
        let (mut codes, mut scales) = (Vec::new(), Vec::new());
        rows(&bf16(values), columns, &mut codes, &mut scales)?;
        let scales = scales.as_chunks::<2>().0.iter().map(|s| half::to_f32(u16::from_le_bytes(*s)));
        Ok((codes.into_iter().map(|code| code as i8).collect(), scales.collect()))
    }

    #[test]
    fn a_row_is_scaled_by_its_largest_and_rounded_half_to_even() {
        let (codes, scales) =
            quantized(&[127.0, -127.0, 0.5, 1.5, -2.5, 0.0, 254.0, 3.0], 4).unwrap();
        assert_eq!(scales, [1.0, 2.0]);
        assert_eq!(codes, [127, -127, 0, 2, -1, 0, 127, 2]);
    }

    #[test]
    fn a_row_of_zeros_has_scale_zero() {
        assert_eq!(quantized(&[0.0, -0.0], 2), Ok((vec![0, 0], vec![0.0])));
    }

    #[test]
    fn scales_that_half_precision_cannot_hold_are_refused() {
        let fine = [1.0, 2.0];
        for value in [f32::NAN, f32::INFINITY, 65536.0 * 128.0, 1e-7, f32::MIN_POSITIVE] {
            let rows = [fine[0], fine[1], 0.0, value];
            assert_eq!(quantized(&rows, 2), Err(Unscalable { row: 1 }), "{value}");
        }
        // The smallest scale there is: half of it and a little more, times 127.
        let (codes, scales) = quantized(&[3.9e-6, 0.0], 2).unwrap();
        assert_eq!((codes[0], scales[0]), (65, 2f32.powi(-24)));
        assert!(quantized(&[65504.0 * 127.0], 1).is_ok());
    }

    /// Every magnitude there is, against integers: 127 s is the nearest to the magnitude among all
    /// halves, the even one of two that are as near.
    #[test]
    fn scales_are_the_nearest_halves_to_the_true_quotients() {
        // A value in units of 2^-160: bfloat16s and halves alike are whole numbers of these; here
        // shifted into an integer for the magnitudes whose quotient is a finite half.
        let units = |value: f32| (f64::from(value) * 2f64.powi(40)) as i128;
        let mut checked = 0;
        for largest in 1..INFINITE {
            let value = widen(largest);
            let Some(scale) = scale(largest).filter(|_| value >= 2f32.powi(-16)) else { continue };
            let distance = |half: u16| (units(value) - 127 * units(half::to_f32(half))).abs();
            let near = [scale - 1, scale + 1].map(distance);
            let own = distance(scale);
            assert!(own <= near[0] && (own <= near[1] || scale == 0x7bff), "{largest:04x}");
            assert!((own < near[0] && own < near[1]) || scale % 2 == 0 || scale == 0x7bff);
            checked += 1;
        }
        assert!(checked > 4000, "{checked}");
    }

    /// Every magnitude under every scale of one power of two: that is every pair of significands.
    #[test]
    fn codes_are_the_nearest_integers_to_the_true_quotients() {
        for scale in 0x3c00..0x4000u16 {
            let scale = half::to_f32(scale);
            let values: Vec<u16> = (0..0x4300).filter(|bits| widen(*bits) >= 0.25).collect();
            let elements: Vec<[u8; 2]> = values.iter().map(|bits| bits.to_le_bytes()).collect();
            let mut codes = vec![0; values.len()];
            encode(&elements, scale, &mut codes);
            for (bits, code) in values.into_iter().zip(codes) {
                // Numbers with at most 19 significant bits each: every step is exact.
                let (value, code) = (f64::from(widen(bits)), f64::from(code as i8));
                let scale = f64::from(scale);
                let error = (value - code * scale).abs() - scale / 2.0;
                let clamped = code == 127.0 && value > code * scale;
                let even = code % 2.0 == 0.0;
                assert!(error < 0.0 || (error == 0.0 && even) || clamped, "{value} {scale} {code}");
            }
        }
    }
}
