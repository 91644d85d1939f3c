//! The chat page as it is delivered; what it does is tested in a browser by scripts/check-page.

use deltafin_server::Settings;

use crate::script::{Act, quick, start_with};
use crate::wire::{ask, get};

#[test]
fn the_page_is_whole_and_lets_nothing_else_run() {
    let settings = Settings { api_keys: vec!["k".to_owned()], ..quick() };
    let rig = start_with(settings, &[Act::Stop]);
    // A browser sends no key when it opens an address.
    let mut response = get(rig.at, "/", "");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = response.header("content-security-policy").unwrap().to_owned();
    let page = response.text();
    let nonce = policy.split("script-src 'nonce-").nth(1).unwrap().split('\'').next().unwrap();
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
    assert_eq!(page.matches(&format!("nonce=\"{nonce}\"")).count(), 2);
    assert_eq!((page.matches("<script").count(), page.matches("<style").count()), (1, 1));
    // Nothing is left to be filled in, and nothing is fetched from elsewhere.
    for absent in ["{nonce}", "{style}", "{script}", "src=\"", "@import", "innerHTML", "eval("] {
        assert!(!page.contains(absent), "{absent}");
    }
    let again = get(rig.at, "/", "").header("content-security-policy").unwrap().to_owned();
    assert_ne!(again, policy);
    assert_eq!(ask(rig.at, "POST", "/", "x-api-key: k\r\n", "{}").refusal().0, 405);
}
