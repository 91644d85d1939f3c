use super::*;

#[test]
fn lengths_are_checked() {
    let bytes = [0u8; 64];
    let f32s = |rows, cols, len| Matrix::new(rows, cols, Weights::F32(&bytes[..len])).map(|_| ());
    assert_eq!(f32s(2, 4, 32), Ok(()));
    assert_eq!(f32s(2, 4, 31), Err(MatrixError::Weights { wanted: 32, got: 31 }));
    assert_eq!(f32s(0, 4, 0), Ok(()));
    let huge = usize::MAX / 2;
    assert_eq!(f32s(huge, 3, 0), Err(MatrixError::TooLarge { rows: huge, columns: 3 }));
    let int8 =
        |scales| Matrix::new(3, 5, Weights::Int8 { codes: &bytes[..15], scales }).map(|_| ());
    assert_eq!(int8(&bytes[..6]), Ok(()));
    assert_eq!(int8(&bytes[..5]), Err(MatrixError::Scales { wanted: 6, got: 5 }));
    let mxfp4 = |cols| {
        let weights = Weights::Mxfp4 { packed: &bytes[..32], scales: &bytes[..2] };
        Matrix::new(2, cols, weights).map(|_| ())
    };
    assert_eq!(mxfp4(32), Ok(()));
    assert_eq!(mxfp4(33), Err(MatrixError::PartialGroup { columns: 33 }));
    assert_eq!(mxfp4(64), Err(MatrixError::Weights { wanted: 64, got: 32 }));
}

#[test]
fn a_row_range_keeps_weights_and_scales_together() {
    let (codes, scales): (Vec<u8>, Vec<u8>) = ((0..20).collect(), (100..108).collect());
    let whole = Matrix::new(4, 5, Weights::Int8 { codes: &codes, scales: &scales }).unwrap();
    let part = whole.row_range(1..3);
    assert_eq!((part.rows(), part.cols(), part.bytes()), (2, 5, 14));
    assert_eq!(part.weights().parts(), (&codes[5..15], &scales[2..6]));
    assert_eq!(whole.row_range(4..4).rows(), 0);
}

#[test]
fn every_half_is_exact() {
    for half in 0..=u16::MAX {
        let exponent = i32::from(half >> 10 & 31);
        let fraction = f64::from(half & 1023) / 1024.0;
        let magnitude = match exponent {
            0 => fraction * 2f64.powi(-14),
            31 if fraction == 0.0 => f64::INFINITY,
            31 => f64::NAN,
            _ => (1.0 + fraction) * 2f64.powi(exponent - 15),
        };
        let wanted = if half & 0x8000 == 0 { magnitude } else { -magnitude };
        let got = f64::from(f16_to_f32(half));
        assert!(got == wanted || got.is_nan() && wanted.is_nan(), "{half:#x}: {got} != {wanted}");
    }
}
