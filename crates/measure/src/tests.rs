use super::*;

#[test]
fn the_report_has_one_line_per_case_and_the_agreed_fields() {
    let options = Options {
        isas: vec![Isa::best().kind()],
        threads: vec![1],
        names: vec!["mxfp4".into(), "bf16".into()],
        rows: vec![1],
        seconds: 0.1,
        room: Room { wanted: 0, most: 64 << 20 },
    };
    let mut seen = 0;
    let report = kernels(&options, &mut |_| seen += 1).unwrap();
    assert_eq!((seen, report.kernels.len()), (2, 2));
    assert!(report.read_gbps > 0.1 && report.fma_gmacs_per_core > 0.1);
    assert!(report.kernels.iter().all(|k| k.gbps > 0.01 && k.ratio_to_fma > 0.0));
    assert!(report.kernels.iter().all(|k| 0.0 < k.ratio_to_read && k.ratio_to_read <= 1.0));
    let json = serde_json::to_value(&report).unwrap();
    let fields = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&json), ["read_gbps", "fma_gmacs_per_core", "kernels"]);
    assert_eq!(
        fields(&json["kernels"][0]),
        ["name", "rows", "isa", "threads", "gbps", "ratio_to_read", "ratio_to_fma"]
    );
}

#[test]
fn what_cannot_be_measured_is_refused_at_once() {
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        match kernels(&options, &mut |_| panic!("measured")) {
            Err(KernelsError::Options(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(refused(|o| o.rows = vec![1, 0]), OptionsError::Rows { found: 0 });
    assert_eq!(refused(|o| o.rows = vec![usize::MAX]), OptionsError::Rows { found: usize::MAX });
    assert_eq!(refused(|o| o.threads = vec![1025]), OptionsError::Threads { found: 1025 });
    for seconds in [-1.0, f64::NAN, f64::INFINITY, 3601.0] {
        let options = Options { seconds, ..Options::default() };
        assert!(matches!(options.check(), Err(OptionsError::Seconds { .. })), "{seconds}");
    }
    assert!(refused(|o| o.names = vec!["fp4".into()]).to_string().contains("'fp4'"));
    assert_eq!(Options::default().check(), Ok(()));
}

/// The least is more than was wanted, and what is beyond the most is not measured.
#[test]
fn measuring_keeps_to_its_room_or_says_what_it_takes() {
    let within = |wanted, most| Options {
        threads: vec![1],
        rows: vec![1],
        room: Room { wanted, most },
        ..Options::default()
    };
    let TooLittle { least, .. } = within(0, 0).memory().unwrap_err();
    assert!(least > Memory::LEAST_BYTES, "{least}");
    assert_eq!(within(0, least).memory(), Ok(Memory::LEAST_BYTES));
    assert_eq!(within(0, least - 1).memory(), Err(TooLittle { least, most: least - 1 }));
    assert_eq!(within(least + 5, u64::MAX).memory(), Ok(Memory::LEAST_BYTES + 5));
    assert_eq!(Options::default().memory(), Ok(Memory::BYTES));
    let long = Options { rows: vec![MOST_ROWS], ..within(0, least) };
    assert!(long.memory().unwrap_err().least > least + (300 << 20));
    let refused = kernels(&within(0, least - 1), &mut |_| panic!("measured")).unwrap_err();
    assert!(matches!(refused, KernelsError::TooLittle(_)), "{refused}");
}

mod drives {
    use std::fs::{self, File};
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;
    use std::time::Duration;

    use deltafin_checkpoint::{ShardId, Span};
    use deltafin_store::{LocalShards, MemoryShards, Store};

    use crate::{Doubt, DriveError, Effort, Room, TooLittle, drive_speed, drive_speed_at};

    const SECOND: Effort =
        Effort { time: Duration::from_secs(1), room: Room { wanted: 3 << 20, most: 3 << 20 } };
    const LEN: u64 = 1 << 20;

    fn records(count: u64) -> Vec<Vec<Span>> {
        let span = |n| Span::new(ShardId::new(0), 77 + n * LEN, LEN - 100).unwrap();
        (0..count).map(|n| vec![span(n)]).collect()
    }

    fn is_hole(doubt: &Doubt) -> bool {
        matches!(doubt, Doubt::Holes { .. })
    }

    #[test]
    fn each_record_is_read_once_and_holes_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create(dir.path().join("shard")).unwrap();
        // Data in the first half, a hole in the second.
        file.write_all_at(&vec![7; (8 * LEN) as usize], 0).unwrap();
        file.set_len(16 * LEN).unwrap();
        file.sync_all().unwrap();
        let store = || Arc::new(LocalShards::open(dir.path(), &["shard"]).unwrap());
        let whole = drive_speed(store(), &records(15), SECOND).unwrap();
        assert_eq!((whole.reads, whole.bytes), (15, 15 * (LEN - 100)));
        assert!(whole.gbps > 0.0 && !whole.how.is_empty());
        let in_memory = whole.doubts == [Doubt::MemoryFiles];
        assert!(in_memory || whole.doubts.iter().any(is_hole), "{:?}", whole.doubts);
        let dense = drive_speed(store(), &records(7), SECOND).unwrap();
        assert!(!dense.doubts.iter().any(is_hole), "{:?}", dense.doubts);
    }

    #[test]
    fn what_is_in_memory_is_told() {
        let bytes = vec![7; (4 * LEN) as usize];
        let store = Arc::new(MemoryShards::new(vec![("shard".to_owned(), bytes.into())]));
        let speed = drive_speed(store as Arc<dyn Store>, &records(3), SECOND).unwrap();
        assert_eq!(speed.doubts, [Doubt::MemoryFiles]);
    }

    #[test]
    fn records_that_have_no_room_are_not_read() {
        let store = || {
            let bytes = vec![7; (4 * LEN) as usize];
            Arc::new(MemoryShards::new(vec![("shard".to_owned(), bytes.into())]))
        };
        let within = |most| Effort { room: Room { wanted: 0, most }, ..SECOND };
        let refused = drive_speed(store(), &records(3), within(LEN)).unwrap_err();
        let DriveError::TooLittle(TooLittle { least, most: LEN }) = refused else {
            panic!("{refused}")
        };
        assert!(least >= 2 * (LEN - 100), "{least}");
        assert_eq!(drive_speed(store(), &records(3), within(least)).unwrap().reads, 3);
        let dir = tempfile::tempdir().unwrap();
        let refused = drive_speed_at(&dir.path().join("file"), LEN, within(LEN)).unwrap_err();
        assert!(matches!(refused, DriveError::TooLittle(_)), "{refused}");
    }

    #[test]
    fn nothing_cannot_be_measured_and_no_file_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let store = MemoryShards::new(Vec::new());
        assert!(matches!(drive_speed(Arc::new(store), &[], SECOND), Err(DriveError::Nothing)));
        let missing = dir.path().join("missing");
        let refused = drive_speed_at(&missing.join("file"), LEN, SECOND).unwrap_err();
        assert!(refused.to_string().contains("missing"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
