//! Lists of children, a page at a time.

use herdsman_client::{Client, Op};
use serde_json::{Value, json};

use super::rest::Rest;

/// Returns all pages of a list after a name.
fn pages(rest: &Rest, query: &str, after: &str) -> Vec<Value> {
    let mut pages = Vec::new();
    let mut after = Some(after.to_owned());
    while let Some(name) = after {
        let page = rest.get(&format!("/api/v1/children?{query}&after={name}")).ok();
        after = page["next"].as_str().map(str::to_owned);
        pages.push(page);
    }
    pages
}

fn names(pages: &[Value]) -> Vec<&str> {
    let rows = pages.iter().flat_map(|page| page["children"].as_array().unwrap());
    rows.map(|row| row["name"].as_str().unwrap()).collect()
}

async fn create_many(client: &Client, parent: &str, count: usize) {
    let mut sent = std::collections::VecDeque::new();
    for start in (0..count).step_by(1000) {
        let ops = (start..count.min(start + 1000)).rev();
        let ops = ops.map(|n| Op::create(&format!("{parent}/n{n:06}"), ""));
        sent.push_back(client.transaction(ops).send());
        if sent.len() > 2 {
            sent.pop_front().unwrap().await.unwrap();
        }
    }
    for reply in sent {
        reply.await.unwrap();
    }
}

#[tokio::test]
async fn a_hundred_thousand_children_are_each_listed_once_in_order() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/wide", "").await.unwrap();
    create_many(&client, "/wide", 100_000).await;
    let pages = pages(&rest, "path=/wide&limit=1000", "");
    assert_eq!(pages.len(), 100);
    let names = names(&pages);
    assert!(names.len() == 100_000 && names.is_sorted_by(|a, b| a < b));
    let filtered = rest.get("/api/v1/children?path=/wide&filter=99&limit=5").ok();
    assert_eq!(filtered["total"], 100_000);
    let expected = (0..100_000).filter(|n| format!("n{n:06}").contains("99")).count();
    assert_eq!(filtered["matched"], expected);
    assert_eq!(filtered["children"].as_array().unwrap().len(), 5);
    assert_eq!(filtered["next"], "n000499");
    client.close().await.unwrap();
}

#[tokio::test]
async fn pages_are_correct_while_children_change() {
    let rest = Rest::start();
    let client = rest.client().await;
    client.create("/p", "").await.unwrap();
    create_many(&client, "/p", 30).await;
    let first = rest.get("/api/v1/children?path=/p&limit=10").ok();
    assert_eq!(first["next"], "n000009");
    // The name after which the next page starts is deleted, and others are created before and after it.
    client.delete("/p/n000009").await.unwrap();
    client.create("/p/a", "").await.unwrap();
    client.create("/p/z", "").await.unwrap();
    let rest_of_it = pages(&rest, "path=/p&limit=10", "n000009");
    let names = names(&rest_of_it);
    assert_eq!((names[0], names.len(), *names.last().unwrap()), ("n000010", 21, "z"));
}

#[test]
fn a_page_has_the_fields_of_a_list() {
    let rest = Rest::start();
    for path in ["/a", "/a/B", "/a/b", "/a/Bc", "/a/b/x"] {
        rest.create(path, "12");
    }
    let page = rest.get("/api/v1/children?path=/a").ok();
    assert_eq!(
        (&page["path"], &page["total"], &page["matched"]),
        (&json!("/a"), &json!(3), &json!(null))
    );
    let row = &page["children"][2];
    assert_eq!(
        (&row["name"], &row["type"], &row["readable"]),
        (&json!("b"), &json!("persistent"), &json!(true))
    );
    assert_eq!(
        (&row["data_length"], &row["num_children"], &row["version"]),
        (&json!(2), &json!(1), &json!(0))
    );
    assert_eq!(row["ephemeral_owner"], json!(null));
    assert!(row["mtime_ms"].as_i64().unwrap() > 0);
    let matched = |filter: &str| {
        let page = rest.get(&format!("/api/v1/children?path=/a&filter={filter}")).ok();
        names(std::slice::from_ref(&page)).join(" ")
    };
    assert_eq!(matched("b"), "B Bc b");
    assert_eq!(matched("B"), "B Bc");
    assert_eq!(matched("nothing"), "");
    assert_eq!(matched(""), "B Bc b");
    assert_eq!(rest.get("/api/v1/children?path=/a&limit=0").status, 400);
    assert_eq!(rest.get("/api/v1/children?path=/a&limit=-1").status, 400);
    assert_eq!(rest.get("/api/v1/children?path=/a&limit=9999").ok()["total"], 3);
    let root = rest.get("/api/v1/children?path=/").ok();
    assert_eq!(names(std::slice::from_ref(&root)), ["a", "zookeeper"]);
}
