//! Requirements on the pictures: form, labels, and identical bytes for identical reports.

use super::super::{ECHO, samples};
use super::*;

/// Parses enough of XML to check that elements are closed in order and attributes are quoted.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    let mut rest = svg;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a bare > in {:?}", &rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            open.push(tag.split_whitespace().next().expect("a tag has a name"));
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    for bad in ["NaN", "inf"] {
        assert!(!svg.contains(bad), "{bad} in {svg}");
    }
}

/// Returns the texts of a picture.
fn texts(svg: &str) -> Vec<&str> {
    let parts = svg.split("<text").skip(1);
    let inner = |part: &'_ str| -> Option<(usize, usize)> {
        Some((part.find('>')? + 1, part.find("</text>")?))
    };
    parts.filter_map(|part| inner(part).map(|(start, end)| part[start..end].trim())).collect()
}

fn assert_contains(svg: &str, wanted: &[&str]) {
    let said = texts(svg);
    for text in wanted {
        assert!(said.contains(text), "{text:?} is not among {said:?}");
    }
}

fn growth() -> Lines {
    Lines {
        title: "Reads & znodes".to_owned(),
        x_label: "znodes".to_owned(),
        y_label: "reads per second".to_owned(),
        log_x: true,
        log_y: false,
        series: vec![
            ("herdsman".to_owned(), vec![(1e4, 1.05e6), (1e6, 9.5e5), (5e6, 8.8e5)]),
            ("a<b".to_owned(), vec![(1e4, 1.2e5), (5e6, 0.8e5)]),
        ],
    }
}

#[test]
fn rates_name_workloads_targets_and_values() {
    let svg = rates(&samples::two_targets_and_echo()).unwrap();
    assert_well_formed(&svg);
    assert_contains(
        &svg,
        &["herdsman", "apache", "echo (the limit)", "get 64 × 16", "set 64 × 16"],
    );
    assert_contains(&svg, &["1.05 M/s", "119 k/s", "1.58 M/s"]);
    assert!(svg.contains("sans-serif") && svg.contains("width=\"900\""));
}

#[test]
fn only_large_ratios_get_a_logarithmic_scale() {
    let row = |rate| samples::row("get", "one", 1, &[rate], 50.0);
    for (rates_of_rows, title) in [
        ([1000.0, 19_000.0], "Operations per second"),
        ([1000.0, 21_000.0], "Operations per second, logarithmic scale"),
    ] {
        let mut rows = rates_of_rows.map(row).to_vec();
        rows[1].target = "two".to_owned();
        assert_contains(&rates(&Report { rows, ..Report::default() }).unwrap(), &[title]);
    }
}

#[test]
fn latencies_name_percentiles() {
    let svg = latencies(&samples::two_targets_and_echo()).unwrap();
    assert_well_formed(&svg);
    assert_contains(&svg, &["p50", "p99", "p99.9", "max", "p99 1.83 ms", "get 64 × 16", "1 ms"]);
}

#[test]
fn lines_name_series_and_axes() {
    let svg = draw(&growth()).unwrap();
    assert_well_formed(&svg);
    assert_contains(&svg, &["znodes", "reads per second", "herdsman", "10 k", "1 M"]);
    assert_contains(&svg, &["a&lt;b", "Reads &amp; znodes"]);
}

#[test]
fn the_same_report_is_the_same_picture() {
    let report = samples::two_targets_and_echo();
    assert_eq!(overview(&report).unwrap(), overview(&report).unwrap());
    assert_eq!(draw(&growth()).unwrap(), draw(&growth()).unwrap());
}

#[test]
fn an_empty_report_is_still_a_picture() {
    let one = |rates: &[f64]| vec![samples::row("get", ECHO, 1, rates, 0.0)];
    for rows in [vec![], one(&[]), one(&[0.0]), samples::empty_and_failed().rows] {
        assert_well_formed(&overview(&Report { rows, ..Report::default() }).unwrap());
    }
    assert_contains(&rates(&samples::empty_and_failed()).unwrap(), &["no replies"]);
    for log in [false, true] {
        for points in [vec![], vec![(0.0, 0.0)], vec![(f64::NAN, 1.0), (1.0, f64::INFINITY)]] {
            let series = vec![("one".to_owned(), points)];
            let lines = Lines { log_x: log, log_y: log, series, ..Lines::default() };
            assert_well_formed(&draw(&lines).unwrap());
        }
    }
}
