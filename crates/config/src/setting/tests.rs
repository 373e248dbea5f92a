//! Texts as each shape reads them: what Apache takes, takes oddly, or refuses.

use super::*;

/// The text is read as `value`, without remark.
fn check(shape: Shape, text: &str, value: Value<'_>) {
    assert_eq!(shape.read(text), Ok(Reading::plain(value)), "{shape:?} {text:?}");
}

/// The text is read as `value` (`None` leaves the default), with a remark.
fn check_odd(shape: Shape, text: &str, value: Option<Value<'_>>) {
    let reading =
        shape.read(text).unwrap_or_else(|expected| panic!("{text:?}: expected {expected}"));
    assert_eq!(reading.value, value, "{shape:?} {text:?}");
    assert!(reading.odd.is_some(), "{shape:?} {text:?} deserves a remark");
}

fn check_refused(shape: Shape, texts: &[&str]) {
    for text in texts {
        assert!(shape.read(text).is_err(), "{shape:?} {text:?}");
    }
}

#[test]
fn settings_that_apache_reads_itself_are_strict() {
    check(Shape::Int, "2000", Value::Int(2000));
    check(Shape::Int, "+5", Value::Int(5));
    check(Shape::Int, "-1", Value::Int(-1));
    check_refused(Shape::Int, &["", "x", "1.5", "0x10", "2147483648", "1 000", "1_000"]);
    check(Shape::Long, "2147483648", Value::Int(1 << 31));
    check_refused(Shape::Long, &["", "9223372036854775808"]);
    check(Shape::Port, "0", Value::Int(0));
    check(Shape::Port, "+2181", Value::Int(2181));
    check_refused(Shape::Port, &["", "-1", "65536", "++1", "http"]);
    check(Shape::Bool, "TRUE", Value::Bool(true));
    check(Shape::Bool, "False", Value::Bool(false));
    check_refused(Shape::Bool, &["", "yes", "1", "on"]);
    check(Shape::Float, "0.02", Value::Float(0.02));
    check(Shape::Float, "1e-3f", Value::Float(0.001));
    check_refused(Shape::Float, &["", "x", "NaN", "inf"]);
    check(Shape::Path, "/var/lib", Value::Text("/var/lib"));
    check_refused(Shape::Path, &[""]);
}

#[test]
fn numbers_from_properties_fall_back_to_the_default() {
    check(Shape::LooseInt, "-1", Value::Int(-1));
    check(Shape::LooseInt, "0x10", Value::Int(16));
    check(Shape::LooseInt, "-0XfF", Value::Int(-255));
    check(Shape::LooseInt, "#ff", Value::Int(255));
    check(Shape::LooseInt, "010", Value::Int(8));
    check(Shape::LooseInt, "0", Value::Int(0));
    for text in ["", "x", "1.5", "0x", "+", "--1", "09", "2147483648", "1k", "0x-5"] {
        check_odd(Shape::LooseInt, text, None);
    }
    check(Shape::LooseLong, "2147483648", Value::Int(1 << 31));
    check(Shape::LooseLong, "-0x8000000000000000", Value::Int(i64::MIN));
    check_odd(Shape::LooseLong, "9223372036854775808", None);
    check(Shape::LooseFloat, "0.33", Value::Float(0.33));
    check_odd(Shape::LooseFloat, "a third", None);
}

#[test]
fn switches_from_properties_have_one_word_that_matters() {
    let (yes, no) = (Value::Bool(true), Value::Bool(false));
    check(Shape::Flag, "True", yes);
    check(Shape::Flag, "false", no);
    check_odd(Shape::Flag, "yes", Some(no));
    check_odd(Shape::Flag, "", Some(no));
    check(Shape::OnlyTrue, "true", yes);
    check(Shape::OnlyTrue, "TRUE", no);
    check(Shape::NotFalse, "false", no);
    check(Shape::NotFalse, "FALSE", yes);
    check_odd(Shape::NotFalse, "no", Some(yes));
    check(Shape::OnlyYes, "yes", yes);
    check(Shape::OnlyYes, "no", no);
    check_odd(Shape::OnlyYes, "true", Some(no));
    check(Shape::NotNo, "no", no);
    check(Shape::NotNo, "yes", yes);
    check_odd(Shape::NotNo, "false", Some(yes));
}
