use std::time::Instant;

use shop::retry::retry;

#[test]
fn a_request_is_repeated() {
    let start = Instant::now();
    let mut calls = 0;
    let is_sent = retry(|| {
        calls += 1;
        calls == 3
    });
    assert!(is_sent);
    assert!(start.elapsed().as_millis() < 210);
}
