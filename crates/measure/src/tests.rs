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
    let report = kernels(&options, &mut |_| seen += 1);
    assert_eq!((seen, report.kernels.len()), (2, 2));
    assert!(report.read_gbps > 0.1 && report.fma_gmacs_per_core > 0.1);
    assert!(report.kernels.iter().all(|k| k.gbps > 0.01 && k.ratio_to_fma > 0.0));
    let json = serde_json::to_value(&report).unwrap();
    let fields = |v: &serde_json::Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&json), ["read_gbps", "fma_gmacs_per_core", "kernels"]);
    assert_eq!(
        fields(&json["kernels"][0]),
        ["name", "rows", "isa", "threads", "gbps", "ratio_to_read", "ratio_to_fma"]
    );
}
