//! Every scale that the formats can hold, on the ways for few and for many positions.

use super::twin::check;
use super::{Kind, Random, Stored};

/// One position, part of a tile, a tile of either width, more than a tile, more than a pass.
const POSITIONS: [usize; 7] = [1, 2, 3, 4, 5, 9, 67];

/// Activations that make results ordinary for some scales, vanish or overflow for others.
const SIZES: [f32; 4] = [1.0, 1e-30, 1e-43, 1e30];

fn activations(stored: &Stored, positions: usize, size: f32, random: &mut Random) -> Vec<f32> {
    random.floats(positions * stored.cols).iter().map(|x| x * size).collect()
}

#[test]
fn every_mxfp4_scale_byte_in_every_place_of_a_group() {
    let mut random = Random(4);
    // Row `s` holds scale `s` in all of its groups; the codes of a group are all sixteen, twice.
    let mut stored = Stored::random(Kind::Mxfp4, 256, 64, &mut random);
    stored.scales = std::iter::once(0).chain((0..=255).flat_map(|s| [s; 2])).collect();
    let codes = (0..stored.main.len() - 1).map(|i| ((i % 8) * 2 + (i % 8 * 2 + 1) * 16) as u8);
    stored.main = std::iter::once(0).chain(codes).collect();
    for (positions, size) in POSITIONS.into_iter().flat_map(|p| SIZES.map(|size| (p, size))) {
        let x = activations(&stored, positions, size, &mut random);
        let bounded = check(&stored, &x, positions);
        assert!(bounded > positions * 100, "{bounded} of {} results", positions * 256);
    }
}

#[test]
fn every_mxfp4_scale_byte_beside_ordinary_ones() {
    let mut random = Random(5);
    // More groups than a panel holds; row `s` holds scale `s` once, in a group of its own.
    let groups = 19;
    let mut stored = Stored::random(Kind::Mxfp4, 256, 32 * groups, &mut random);
    for s in 0..256 {
        stored.scales[1 + s * groups + s % groups] = s as u8;
    }
    for positions in [1, 5, 9] {
        let x = activations(&stored, positions, 1.0, &mut random);
        let bounded = check(&stored, &x, positions);
        assert!(bounded > positions * 240, "{bounded} of {} results", positions * 256);
    }
}

#[test]
fn no_weight_is_read_as_a_number_under_the_scale_that_is_none() {
    let mut random = Random(6);
    let mut stored = Stored::random(Kind::Mxfp4, 16, 32, &mut random);
    stored.scales.fill(255);
    stored.main = (0..=255).map(|i: u16| (i.saturating_sub(1) / 16 * 17) as u8).collect();
    stored.main.push(255);
    for positions in POSITIONS {
        let x = vec![1.0; positions * 32];
        for (name, kernels) in super::every_way() {
            let y = super::product(&kernels, stored.matrix(), &x, positions);
            assert!(y.iter().all(|y| y.is_nan()), "{name} T={positions}: {y:?}");
        }
    }
}

#[test]
fn every_half_as_an_int8_row_scale() {
    let mut random = Random(7);
    // All 65,536: subnormals, both zeros, infinities and NaN among them.
    let mut stored = Stored::random(Kind::Int8, 1 << 16, 5, &mut random);
    let halves = (0..=u16::MAX).flat_map(u16::to_le_bytes);
    stored.scales = std::iter::once(0).chain(halves).collect();
    for (positions, size) in [(1, 1.0), (4, 1e-43), (5, 1.0), (9, 1e-36)] {
        let x = activations(&stored, positions, size, &mut random);
        let finite = positions * 62 * 1024;
        assert_eq!(
            check(&stored, &x, positions),
            finite,
            "all but infinities and NaN have a bound"
        );
    }
}
