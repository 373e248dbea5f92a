//! Changes the white space of JSON, and nothing else.
//!
//! Parsing it into values and writing them again would sort keys, round numbers and drop repeated
//! keys, which an editor must not do to a user's configuration. In: text that is valid JSON.

/// One member or element per line, indented by two spaces per level.
pub(super) fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let compact = compact(json);
    let mut tokens = Tokens::new(&compact);
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                if let Some(close) = tokens.next_if_closes() {
                    out.push_str(close);
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push_str(token);
            }
            "," => {
                out.push(',');
                break_line(&mut out, depth);
            }
            ":" => out.push_str(": "),
            other => out.push_str(other),
        }
    }
    out.push('\n');
    out
}

/// Removes all white space outside of strings.
pub(super) fn compact(json: &str) -> String {
    let mut tokens = Tokens::new(json);
    let mut out = String::with_capacity(json.len());
    while let Some(token) = tokens.next() {
        out.push_str(token.trim());
    }
    out
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
}

/// Splits JSON into strings, punctuation, and what is between them.
struct Tokens<'j> {
    rest: &'j str,
}

impl<'j> Tokens<'j> {
    fn new(json: &'j str) -> Self {
        Tokens { rest: json }
    }

    fn next(&mut self) -> Option<&'j str> {
        let first = self.rest.bytes().next()?;
        let end = match first {
            b'"' => text_end(self.rest),
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            _ => {
                let is_other = |c: char| matches!(c, '"' | '{' | '}' | '[' | ']' | ',' | ':');
                self.rest.find(is_other).unwrap_or(self.rest.len())
            }
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }

    fn next_if_closes(&mut self) -> Option<&'j str> {
        self.rest.starts_with(['}', ']']).then(|| self.next()).flatten()
    }
}

/// The end of the string at the beginning of `json`.
fn text_end(json: &str) -> usize {
    let mut is_escaped = false;
    for (index, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return index + 1,
            _ => {}
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_white_space_changes() {
        let json = r#" {"b" : [1.10, {}, [ ], "a\"{,}:\\"], "a":{"x":null,"x":1e400}} "#;
        let shown = indented(json);
        let expected = r#"{
  "b": [
    1.10,
    {},
    [],
    "a\"{,}:\\"
  ],
  "a": {
    "x": null,
    "x": 1e400
  }
}
"#;
        assert_eq!(shown, expected);
        assert_eq!(compact(&shown), compact(json));
        assert_eq!(compact(json), r#"{"b":[1.10,{},[],"a\"{,}:\\"],"a":{"x":null,"x":1e400}}"#);
        assert_eq!((indented("7").as_str(), compact(" \"a b\" ").as_str()), ("7\n", "\"a b\""));
    }
}
