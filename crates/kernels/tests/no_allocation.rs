//! Products allocate nothing once their scratch memory has seen the sizes.
#![allow(unsafe_code)]

use deltafin_kernels::{Isa, Kernels, LatentDims, Matrix, Product, Scratch, Serial, Weights};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator with a counter.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_of(f: &mut dyn FnMut()) -> usize {
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    f();
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

// One test alone: the counter is the process's.
#[test]
fn steady_state_allocates_nothing() {
    let bytes = vec![1u8; 1 << 16];
    let bf16 = Matrix::new(96, 64, Weights::Bf16(&bytes[..96 * 128])).unwrap();
    let (packed, scales) = (&bytes[..96 * 32], &bytes[..96 * 2]);
    let mxfp4 = Matrix::new(96, 64, Weights::Mxfp4 { packed, scales }).unwrap();
    let dims = LatentDims { heads: 4, nope: 16, rope: 4, v: 8, latent: 64 };
    let x = vec![1.0; 300 * 64];
    let (mut a, mut b) = (vec![0.0; 300 * 96], vec![0.0; 300 * 96]);
    for isa in Isa::available() {
        let kernels = Kernels::new(isa, Arc::new(Serial));
        let mut scratch = Scratch::default();
        let mut round = || {
            for t in [300, 1, 7] {
                let (x, a, b) = (&x[..t * 64], &mut a[..t * 96], &mut b[..t * 96]);
                let jobs = &mut [Product { w: bf16, x, y: a }, Product { w: mxfp4, x, y: b }];
                kernels.products(&mut scratch, jobs);
            }
            let (q, ctx) = (&x[..5 * 4 * 20], &x[..4 * 5 * 64]);
            kernels.absorb_keys(bf16, &dims, q, &mut a[..4 * 5 * 64]);
            kernels.expand_values(&mut scratch, bf16, &dims, ctx, &mut b[..5 * 4 * 8]);
        };
        assert!(allocations_of(&mut round) > 0, "the scratch memory grows at first");
        assert_eq!(allocations_of(&mut round), 0, "{}", isa.kind());
    }
}
