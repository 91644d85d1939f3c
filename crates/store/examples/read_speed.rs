//! How fast a reader reads records of a file, by mode, size of transfers and depth.
//!
//!     cargo run --release -p deltafin-store --example read_speed -- FILE [SECONDS [MODE,.. [CHUNK_KIB,.. [DEPTH,..]]]]
//!
//! The file should be larger than what its drive caches, written and at rest. Records are of the
//! size and misalignment of a released expert; as many are asked for at once as a layer needs.
//! What the page cache holds of the file is dropped before each arm. `pinned` is a ring with
//! registered memory.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use deltafin_checkpoint::{ShardId, Span};
use deltafin_store::arena::{Arena, Slab};
use deltafin_store::drive::{
    Class, IoMode, Landed, Landing, Reader, Ticket, Tuning, open_reader_tuned, room_for,
};
use deltafin_store::{LocalShards, Store};
use rustix::time::{ClockId, clock_gettime};

const RECORD_BYTES: u64 = 17_547_264;
const LEAD_BYTES: u64 = 1234;
/// The experts of one token in one layer.
const AT_ONCE: usize = 16;

struct Shore(Sender<Landed>);

impl Landing for Shore {
    fn landed(&self, _: Ticket, landed: Landed) {
        let _nobody_listens_at_the_end = self.0.send(landed);
    }
}

/// One arm of the comparison.
struct Arm {
    name: String,
    mode: IoMode,
    pinned: bool,
    tuning: Tuning,
}

/// Records of the file, one after the other, forever.
struct Records {
    count: u64,
    next: u64,
}

impl Records {
    fn next(&mut self) -> Option<Span> {
        let number = self.next % self.count;
        self.next += 1;
        Span::new(ShardId::new(0), LEAD_BYTES + number * RECORD_BYTES, RECORD_BYTES)
    }
}

fn list(argument: Option<String>, default: &str) -> Vec<String> {
    let argument = argument.unwrap_or_else(|| default.to_owned());
    argument.split(',').map(str::to_owned).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("give a file")?;
    let seconds: f64 = arguments.next().map_or(Ok(1.0), |word| word.parse())?;
    let modes = list(arguments.next(), "pinned,uring,direct,buffered");
    let chunks = list(arguments.next(), "256,1024,4096");
    let depths = list(arguments.next(), "4,8,32");
    println!("{:9} {:>9} {:>6} {:>6} {:>10}", "mode", "chunk KiB", "depth", "GB/s", "CPU ms/GB");
    for chunk in &chunks {
        for depth in &depths {
            for name in &modes {
                let arm = arm(name, chunk.parse()?, depth.parse()?)?;
                let (speed, cpu) = measure(Path::new(&file), &arm, seconds)?;
                println!("{:9} {chunk:>9} {depth:>6} {speed:>6.2} {cpu:>10.0}", arm.name);
            }
        }
    }
    Ok(())
}

fn arm(name: &str, chunk_kib: usize, depth: usize) -> Result<Arm, String> {
    let (mode, pinned) = match name {
        "pinned" => (IoMode::Uring, true),
        "uring" => (IoMode::Uring, false),
        "direct" => (IoMode::Direct, false),
        "buffered" => (IoMode::Buffered, false),
        other => return Err(format!("no mode {other}")),
    };
    let tuning = Tuning { chunk_bytes: chunk_kib << 10, depth, idle_depth: depth, threads: depth };
    Ok(Arm { name: name.to_owned(), mode, pinned, tuning })
}

/// GB/s, and CPU time in milliseconds per GB.
fn measure(path: &Path, arm: &Arm, seconds: f64) -> Result<(f64, f64), Box<dyn Error>> {
    let (dir, name) = (path.parent().ok_or("no folder")?, path.file_name().ok_or("no file")?);
    let store: Arc<dyn Store> = Arc::new(LocalShards::open(dir, &[name.to_string_lossy()])?);
    let count = (store.shards()[0].len - LEAD_BYTES) / RECORD_BYTES;
    let mut records = Records { count, next: 0 };
    drop_cache(path)?;

    let first = records.next().ok_or("a file too short")?;
    let room = room_for(&[first]);
    let arena = Arena::new((AT_ONCE + 1) * room)?;
    let (sender, landed) = channel();
    let arenas = if arm.pinned { vec![Arc::clone(&arena)] } else { Vec::new() };
    let landing = Arc::new(Shore(sender));
    let reader = open_reader_tuned(Arc::clone(&store), arm.mode, &arenas, landing, arm.tuning)?;
    let slabs = (0..AT_ONCE).map_while(|_| arena.take(room));
    slabs.for_each(|slab| ask(&*reader, &mut records, slab));
    // The first records also pay for the memory's pages.
    keep_reading(&*reader, &landed, &mut records, Duration::ZERO, AT_ONCE)?;
    let (began, cpu_began) = (Instant::now(), cpu_time());
    let time = Duration::from_secs_f64(seconds);
    let bytes = keep_reading(&*reader, &landed, &mut records, time, 0)?;
    let (took, cpu) = (began.elapsed(), cpu_time() - cpu_began);
    let gigabytes = bytes as f64 / 1e9;
    Ok((gigabytes / took.as_secs_f64(), cpu.as_secs_f64() * 1e3 / gigabytes))
}

/// Asks for another record whenever one lands, so long or for so many; gives the bytes.
fn keep_reading(
    reader: &dyn Reader,
    landed: &Receiver<Landed>,
    records: &mut Records,
    time: Duration,
    least: usize,
) -> Result<u64, Box<dyn Error>> {
    let began = Instant::now();
    let (mut bytes, mut count) = (0, 0);
    while began.elapsed() < time || count < least {
        match landed.recv()? {
            Landed::Whole(filled) => {
                bytes += filled.len() as u64;
                count += 1;
                ask(reader, records, filled.into_slab());
            }
            Landed::Failed(_, error) => return Err(error.into()),
            Landed::Cancelled(_) => return Err("cancelled".into()),
        }
    }
    Ok(bytes)
}

fn ask(reader: &dyn Reader, records: &mut Records, slab: Slab) {
    if let Some(span) = records.next() {
        reader.read(Ticket(records.next), Class::Demand, &[span], slab);
    }
}

#[cfg(target_os = "linux")]
fn drop_cache(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?;
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// There is no asking for it: buffered arms after the first are from memory.
#[cfg(target_os = "macos")]
fn drop_cache(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Of all threads of the process, in the system and outside.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
