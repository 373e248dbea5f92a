//! The Prometheus text format 0.0.4. Apache: `PrometheusMetricsProvider`, which
//! uses the Java client 0.9 of Prometheus, before counters had to end in `_total`.
//!
//! So every series of an Apache dashboard has the same name here, with the same quantiles and with
//! the label `key` in sets. One difference: the Java client computes quantiles of the last ten minutes,
//! ours are of all values since the start. For recent ones there are histograms.

use std::fmt::Write;

use super::family::{Detail, Family, Kind, Number, Reading, Sample, Summary};
use crate::operators::stats::HistogramReading;

/// The content type of the answer to a scrape.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Formats all families, each with its help and its type, and a line for each value.
#[must_use]
pub fn prometheus_text(families: &[Family]) -> String {
    let mut text = String::with_capacity(128 * families.len());
    for family in families {
        let Family { name, help, kind, samples } = family;
        let _ = writeln!(text, "# HELP {name} {}", escaped_help(help));
        let _ = writeln!(text, "# TYPE {name} {}", type_name(*kind));
        for Sample { labels, reading } in samples {
            let lines = Lines { text: &mut text, name, labels };
            lines.add(reading);
        }
    }
    text
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
        Kind::Summary => "summary",
        Kind::Histogram => "histogram",
    }
}

/// The lines of one value.
struct Lines<'a> {
    text: &'a mut String,
    name: &'a str,
    labels: &'a [(&'static str, std::borrow::Cow<'static, str>)],
}

impl Lines<'_> {
    fn add(mut self, reading: &Reading) {
        match reading {
            Reading::Number(Number::Whole(value)) => self.line("", None, &value.to_string()),
            Reading::Number(Number::Fraction(value)) => self.line("", None, &fraction(*value)),
            Reading::Summary(summary) => self.add_summary(summary),
            Reading::Histogram(histogram) => self.add_histogram(histogram),
        }
    }

    /// Quantiles of an empty series are NaN, as in the Java client.
    fn add_summary(&mut self, summary: &Summary) {
        let Summary { series, percentiles: p, detail } = summary;
        let quantiles: &[(&str, u64)] = match detail {
            Detail::Basic => &[("0.5", p.p50)],
            Detail::Advanced => &[("0.5", p.p50), ("0.9", p.p90), ("0.99", p.p99)],
        };
        for (quantile, value) in quantiles {
            let value = if series.count == 0 { "NaN".to_owned() } else { value.to_string() };
            self.line("", Some(("quantile", quantile)), &value);
        }
        self.line("_count", None, &series.count.to_string());
        self.line("_sum", None, &series.sum.to_string());
    }

    fn add_histogram(&mut self, histogram: &HistogramReading) {
        let HistogramReading { cumulative, count, sum_us } = histogram;
        for (bound_us, up_to) in cumulative {
            self.line("_bucket", Some(("le", &seconds(*bound_us))), &up_to.to_string());
        }
        self.line("_bucket", Some(("le", "+Inf")), &count.to_string());
        self.line("_count", None, &count.to_string());
        self.line("_sum", None, &seconds(*sum_us));
    }

    fn line(&mut self, suffix: &str, last_label: Option<(&str, &str)>, value: &str) {
        let Lines { text, name, labels } = self;
        text.push_str(name);
        text.push_str(suffix);
        let labels = labels.iter().map(|(label, of)| (*label, of.as_ref())).chain(last_label);
        let mut open = '{';
        for (label, of) in labels {
            let _ = write!(text, "{open}{label}=\"{}\"", escaped_label(of));
            open = ',';
        }
        if open == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

fn seconds(us: u64) -> String {
    fraction(us as f64 / 1e6)
}

fn fraction(value: f64) -> String {
    match value {
        _ if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ => value.to_string(),
    }
}

fn escaped_help(help: &str) -> String {
    help.replace('\\', "\\\\").replace('\n', "\\n")
}

fn escaped_label(value: &str) -> String {
    escaped_help(value).replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::stats::{Histogram, SharedDistribution};
    use std::borrow::Cow;

    fn check(family: Family, expected: &str) {
        assert_eq!(prometheus_text(&[family]), expected);
    }

    #[test]
    fn numbers_keep_their_names() {
        check(
            Family::counter("commit_count", "Txns\ncommitted.", 7),
            "# HELP commit_count Txns\\ncommitted.\n# TYPE commit_count counter\ncommit_count 7\n",
        );
        check(
            Family::gauge("avg_latency", "Mean.", Number::Fraction(0.25)),
            "# HELP avg_latency Mean.\n# TYPE avg_latency gauge\navg_latency 0.25\n",
        );
        assert_eq!(fraction(f64::INFINITY), "+Inf");
        assert_eq!(fraction(f64::NAN), "NaN");
    }

    #[test]
    fn labels_are_escaped() {
        let labels = vec![("key", Cow::Borrowed("a\"b\\c\nd")), ("other", Cow::Borrowed("x"))];
        let reading = Reading::Number(Number::Whole(-1));
        let samples = vec![Sample { labels, reading }];
        check(
            Family { name: "n", help: "h", kind: Kind::Gauge, samples },
            "# HELP n h\n# TYPE n gauge\nn{key=\"a\\\"b\\\\c\\nd\",other=\"x\"} -1\n",
        );
    }

    #[test]
    fn summaries_have_apaches_quantiles() {
        let spread = SharedDistribution::default();
        check(
            Family::summary("readlatency", "Time.", Summary::of(&spread, Detail::Advanced)),
            "# HELP readlatency Time.\n# TYPE readlatency summary\nreadlatency{quantile=\"0.5\"} NaN\n\
             readlatency{quantile=\"0.9\"} NaN\nreadlatency{quantile=\"0.99\"} NaN\n\
             readlatency_count 0\nreadlatency_sum 0\n",
        );
        spread.add_many(4, 3);
        check(
            Family::summary("fsynctime", "Time.", Summary::of(&spread, Detail::Basic)),
            "# HELP fsynctime Time.\n# TYPE fsynctime summary\nfsynctime{quantile=\"0.5\"} 4\n\
             fsynctime_count 3\nfsynctime_sum 12\n",
        );
    }

    #[test]
    fn histograms_are_cumulative_and_in_seconds() {
        let histogram = Histogram::default();
        histogram.add_us(3, 2);
        histogram.add_us(1500, 1);
        histogram.add_us(60_000_000, 1);
        let text = prometheus_text(&[Family::histogram("h_seconds", "H.", histogram.read())]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "# TYPE h_seconds histogram");
        assert_eq!(
            lines[2..4],
            ["h_seconds_bucket{le=\"0.000002\"} 0", "h_seconds_bucket{le=\"0.000003\"} 2"]
        );
        assert!(lines.contains(&"h_seconds_bucket{le=\"0.001536\"} 3"), "{text}");
        assert!(text.ends_with(
            "h_seconds_bucket{le=\"25.165824\"} 3\nh_seconds_bucket{le=\"+Inf\"} 4\n\
             h_seconds_count 4\nh_seconds_sum 60.001506\n"
        ));
    }
}
