//! Prints the report: `kernels [SECONDS] [NAME,..] [ISA,..] [THREADS,..] [ROWS,..]`, `-` for all.
#![allow(clippy::print_stdout)]

use deltafin_measure::{KernelLine, Options};

fn list<T>(argument: Option<String>, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
    let argument = argument.filter(|a| a != "-").unwrap_or_default();
    argument.split(',').filter_map(parse).collect()
}

fn main() -> Result<(), deltafin_measure::KernelsError> {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|a| a.parse().ok()).unwrap_or(15.0);
    let names = list(arguments.next(), |a| (!a.is_empty()).then(|| a.to_owned()));
    let isas = list(arguments.next(), |a| a.parse().ok());
    let threads = list(arguments.next(), |a| a.parse().ok());
    let rows = list(arguments.next(), |a| a.parse().ok());
    let options = Options { isas, threads, names, rows, seconds, ..Options::default() };
    let report = deltafin_measure::kernels(&options, &mut |_: &KernelLine| {})?;
    println!("read {:.1} GB/s", report.read_gbps);
    println!("fma {:.1} GMAC/s per core", report.fma_gmacs_per_core);
    for k in &report.kernels {
        println!(
            "{:6} T={:<3} {:7} x{} {:6.2} GB/s  {:.3} of read  {:.3} of fma",
            k.name, k.rows, k.isa, k.threads, k.gbps, k.ratio_to_read, k.ratio_to_fma
        );
    }
    Ok(())
}
