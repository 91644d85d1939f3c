use super::*;

#[test]
fn the_report_has_one_line_per_case_and_the_agreed_fields() {
    let options = Options {
        isas: vec![Isa::best().kind()],
        threads: vec![1],
        names: vec!["mxfp4".into(), "bf16".into()],
        rows: vec![1],
        seconds: 0.1,
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
        kernels(&options, &mut |_| panic!("measured")).unwrap_err()
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
