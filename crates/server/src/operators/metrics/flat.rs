//! Metrics as names with one number each: the form of the word `mntr` and of the admin server's
//! `monitor`. Apache: `AvgMinMaxCounter.values`, `MetricsUtils`.

use super::family::{Detail, Family, Number, Reading, Summary};

/// All metrics in the form of Apache's `mntr`, without the prefix `zk_`: a summary becomes `avg_<name>`,
/// `min_<name>` and so on, a labelled value `<label>_<name>`. Histograms have no such form and are left
/// out.
#[must_use]
pub fn flat(families: &[Family]) -> Vec<(String, Number)> {
    let mut all = Vec::with_capacity(4 * families.len());
    for Family { name, samples, .. } in families {
        for sample in samples {
            let mut full =
                sample.labels.iter().fold(String::new(), |full, (_, label)| full + label + "_");
            full.push_str(name);
            match &sample.reading {
                Reading::Number(number) => all.push((full, *number)),
                Reading::Summary(summary) => add_summary(&mut all, &full, summary),
                Reading::Histogram(_) => {}
            }
        }
    }
    all
}

fn add_summary(all: &mut Vec<(String, Number)>, name: &str, summary: &Summary) {
    let Summary { series, percentiles, detail } = summary;
    all.push((format!("avg_{name}"), Number::Fraction(series.mean())));
    let numbers =
        [("min", series.min), ("max", series.max), ("cnt", series.count), ("sum", series.sum)];
    add_wholes(all, name, &numbers);
    if *detail == Detail::Advanced {
        let p = percentiles;
        let numbers = [("p50", p.p50), ("p95", p.p95), ("p99", p.p99), ("p999", p.p999)];
        add_wholes(all, name, &numbers);
    }
}

fn add_wholes(all: &mut Vec<(String, Number)>, name: &str, numbers: &[(&str, u64)]) {
    let whole =
        |&(of, value): &(&str, u64)| (format!("{of}_{name}"), Number::Whole(value.cast_signed()));
    all.extend(numbers.iter().map(whole));
}
