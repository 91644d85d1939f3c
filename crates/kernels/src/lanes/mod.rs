//! Sixteen fp32 lanes, whatever registers they live in.
//!
//! [`Lanes`] is the whole vocabulary of the kernels. Each implementation does the same sixteen IEEE
//! operations; none may differ from [`Scalar`] in a single bit. Its methods are `inline(always)`:
//! they only become the instructions they name inside a function that enables the instruction set,
//! which is what `instantiate!` writes.
#![allow(unsafe_code)]

mod mxfp4;
pub(crate) mod slices;

mod scalar;
pub(crate) use scalar::Scalar;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) use {avx2::Avx2, avx512::Avx512};

#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
pub(crate) use neon::Neon;

#[cfg(test)]
mod tests;

/// How many lanes a dot product is summed in.
pub(crate) const LANES: usize = 16;

/// Operations on sixteen fp32 lanes, and on the same lanes seen as 32-bit integers.
///
/// # Safety
///
/// Every method requires that the CPU has the implementation's instruction set. Methods that take a
/// pointer require it to be valid for the sixteen elements named; no alignment is needed.
#[allow(clippy::missing_safety_doc)]
pub(crate) trait Lanes: Copy + 'static {
    /// Sixteen floats.
    type F: Copy;
    /// Sixteen 32-bit integers.
    type I: Copy;
    /// One register of floats, a part of `F`.
    type R: Copy;
    /// Registers that make an `F`: lanes `0..16 / PARTS` are the first.
    const PARTS: usize;
    /// Whether there are 32 registers; 16 otherwise.
    const MANY: bool;

    /// How many `F` the registers hold. Kernels choose their tiles by it, never the order of a sum.
    const REGISTERS: usize;

    /// All lanes equal to `x`.
    unsafe fn splat(x: f32) -> Self::F;
    /// Sixteen floats from `p`.
    unsafe fn load(p: *const f32) -> Self::F;
    /// Sixteen floats to `p`.
    unsafe fn store(v: Self::F, p: *mut f32);

    /// A register's worth of floats from `p`.
    unsafe fn load_part(p: *const f32) -> Self::R;
    /// A register's worth of floats to `p`.
    unsafe fn store_part(v: Self::R, p: *mut f32);
    /// `a * b + c` of one register, rounded once.
    unsafe fn fma_part(a: Self::R, b: Self::R, c: Self::R) -> Self::R;

    unsafe fn add(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn sub(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn mul(a: Self::F, b: Self::F) -> Self::F;
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// `if a > b { a } else { b }`: the second operand when either is NaN.
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F;
    /// `if a < b { a } else { b }`: the second operand when either is NaN.
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F;
    /// Lane by lane `if a < b { x } else { y }`.
    unsafe fn select_lt(a: Self::F, b: Self::F, x: Self::F, y: Self::F) -> Self::F;

    /// The floats' bits.
    unsafe fn bits(a: Self::F) -> Self::I;
    /// The floats with these bits.
    unsafe fn from_bits(a: Self::I) -> Self::F;
    /// All lanes equal to `x`.
    unsafe fn splat_i(x: i32) -> Self::I;
    /// Wrapping addition.
    unsafe fn add_i(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn and_i(a: Self::I, b: Self::I) -> Self::I;
    unsafe fn or_i(a: Self::I, b: Self::I) -> Self::I;
    /// Shift left by `N` bits.
    unsafe fn shl_i<const N: i32>(a: Self::I) -> Self::I;
    /// Logical shift right by `N` bits.
    unsafe fn shr_i<const N: i32>(a: Self::I) -> Self::I;

    /// Sixteen little-endian bf16 from `p`, in order.
    unsafe fn load_bf16(p: *const u8) -> Self::F;
    /// Sixteen signed bytes from `p`, in order.
    unsafe fn load_i8(p: *const u8) -> Self::F;
    /// Half `STEP` (0 or 1) of the MXFP4 group in the sixteen bytes at `p`: of its eight bytes, two
    /// little-endian words, lane `2j + h` gets nibble `j` of word `h`, times `2^(scale - 127)`.
    unsafe fn load_mxfp4<const STEP: usize>(p: *const u8, scale: u8) -> Self::F;
    /// Asks for the cache line at `p`, which need not be valid, to be brought to the second-level cache.
    unsafe fn prefetch(p: *const u8);

    /// The sum of all lanes, folded 8+8, 4+4, 2+2, 1+1.
    unsafe fn fold(a: Self::F) -> f32;
}

/// Writes one function per instruction set around a generic kernel, and a safe dispatcher:
///
/// ```ignore
/// instantiate! {
///     /// What it does.
///     pub fn scale(x: &mut [f32], by: f32) -> bool = scale_lanes;
/// }
/// ```
///
/// makes `pub fn scale(isa: Isa, x: &mut [f32], by: f32) -> bool`, which calls
/// `scale_lanes::<L>(x, by)` — an `unsafe fn` marked `#[inline(always)]` — with the lanes of `isa`.
macro_rules! instantiate {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $generic:ident;) => {
        $(#[$doc])*
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name(isa: $crate::Isa, $($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            unsafe fn avx2($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller proves AVX2 and FMA; the slices carry their lengths.
                unsafe { $generic::<$crate::lanes::Avx2>($($arg),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
            unsafe fn avx512($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: the caller proves AVX-512; the slices carry their lengths.
                unsafe { $generic::<$crate::lanes::Avx512>($($arg),*) }
            }
            // The scalar code compiled where `mul_add` is an instruction and not a call: the same
            // roundings, sooner.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "fma")]
            unsafe fn scalar_fma($($arg: $ty),*) $(-> $ret)? {
                // SAFETY: scalar code needs nothing; the slices carry their lengths.
                unsafe { $generic::<$crate::lanes::Scalar>($($arg),*) }
            }
            // SAFETY: an `Isa` exists only for an instruction set this CPU has.
            unsafe {
                match isa.kind() {
                    #[cfg(target_arch = "x86_64")]
                    $crate::IsaKind::Scalar if is_x86_feature_detected!("fma") => {
                        scalar_fma($($arg),*)
                    }
                    #[cfg(target_arch = "x86_64")]
                    $crate::IsaKind::Avx2 => avx2($($arg),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::IsaKind::Avx512 => avx512($($arg),*),
                    #[cfg(target_arch = "aarch64")]
                    $crate::IsaKind::Neon => $generic::<$crate::lanes::Neon>($($arg),*),
                    _ => $generic::<$crate::lanes::Scalar>($($arg),*),
                }
            }
        }
    };
}
pub(crate) use instantiate;
