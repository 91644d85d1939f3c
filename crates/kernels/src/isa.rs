//! Which instruction set the kernels run on. An [`Isa`] exists only for one this CPU has, so holding
//! one is the proof that its kernels may be called.

use std::fmt;
use std::str::FromStr;

/// The instruction sets there are kernels for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IsaKind {
    /// Arrays of sixteen floats and `f32::mul_add`; runs everywhere and defines the results.
    Scalar,
    /// Two 8-lane registers, AVX2 with FMA.
    Avx2,
    /// One 16-lane register, AVX-512 F, BW, DQ and VL.
    Avx512,
    /// Four 4-lane registers, the baseline of 64-bit Arm.
    Neon,
}

impl IsaKind {
    /// All kinds, slowest first.
    pub const ALL: [IsaKind; 4] = [IsaKind::Scalar, IsaKind::Avx2, IsaKind::Neon, IsaKind::Avx512];

    /// The name used on the command line and in statistics.
    pub fn name(self) -> &'static str {
        match self {
            IsaKind::Scalar => "scalar",
            IsaKind::Avx2 => "avx2",
            IsaKind::Avx512 => "avx512",
            IsaKind::Neon => "neon",
        }
    }

    fn is_supported(self) -> bool {
        match self {
            IsaKind::Scalar => true,
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx2 => {
                is_x86_feature_detected!("avx2")
                    && is_x86_feature_detected!("fma")
                    && is_x86_feature_detected!("f16c")
            }
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 => {
                IsaKind::Avx2.is_supported()
                    && is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512vl")
            }
            #[cfg(target_arch = "aarch64")]
            IsaKind::Neon => true,
            #[allow(unreachable_patterns)]
            _ => false,
        }
    }
}

impl fmt::Display for IsaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The name is not one of the instruction sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownIsa(pub String);

impl fmt::Display for UnknownIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown instruction set '{}': use scalar, avx2, avx512 or neon", self.0)
    }
}

impl std::error::Error for UnknownIsa {}

impl FromStr for IsaKind {
    type Err = UnknownIsa;

    fn from_str(s: &str) -> Result<Self, UnknownIsa> {
        Self::ALL.into_iter().find(|k| k.name() == s).ok_or_else(|| UnknownIsa(s.to_owned()))
    }
}

/// An instruction set that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Isa(IsaKind);

/// The CPU lacks the instruction set asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsupportedIsa(pub IsaKind);

impl fmt::Display for UnsupportedIsa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let here = Isa::available().map(|i| i.kind().name()).collect::<Vec<_>>().join(", ");
        write!(f, "this CPU has no {}: it has {here}", self.0)
    }
}

impl std::error::Error for UnsupportedIsa {}

impl Isa {
    /// The portable reference.
    pub const SCALAR: Isa = Isa(IsaKind::Scalar);

    /// The instruction set `kind`, if this CPU has it.
    pub fn new(kind: IsaKind) -> Result<Isa, UnsupportedIsa> {
        if kind.is_supported() { Ok(Isa(kind)) } else { Err(UnsupportedIsa(kind)) }
    }

    /// The fastest one this CPU has.
    pub fn best() -> Isa {
        Isa::available().last().unwrap_or(Isa::SCALAR)
    }

    /// All that this CPU has, slowest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        IsaKind::ALL.into_iter().filter(|k| k.is_supported()).map(Isa)
    }

    /// Which one it is.
    pub fn kind(self) -> IsaKind {
        self.0
    }
}
