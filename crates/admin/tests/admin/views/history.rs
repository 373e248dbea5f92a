//! The history view.

use super::until;
use crate::api::rest::Rest;

#[tokio::test]
async fn what_clients_do_is_in_the_next_sample() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/a", "").await.unwrap();
    let since = |at_ms: i64| rest.get(&format!("/api/v1/history?since={at_ms}")).ok();
    assert_eq!(since(0)["interval_ms"], 2000);
    let first = until("sample", || since(0)["samples"].get(0).cloned()).await;
    client.set("/a", "1").await.unwrap();
    for _ in 0..10 {
        client.get("/a").await.unwrap();
    }
    let at_ms = first["at_ms"].as_i64().unwrap();
    let busy = until("sample with writes", || {
        let view = since(at_ms);
        let samples = view["samples"].as_array().unwrap();
        samples.iter().find(|sample| sample["writes_per_s"].as_f64() > Some(0.0)).cloned()
    });
    let busy = busy.await;
    assert!(busy["at_ms"].as_i64().unwrap() > at_ms);
    assert!(busy["write_p99_ms"].as_f64() >= busy["write_p50_ms"].as_f64());
    assert!(busy["write_p50_ms"].as_f64() > Some(0.0));
    assert_eq!((&busy["connections"], &busy["znodes"]), (&1.into(), &5.into()));
}
