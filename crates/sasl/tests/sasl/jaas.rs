//! JAAS files as the JDK reads them; `interop/sasl` compares the same texts with a real JDK.

use herdsman_sasl::{ControlFlag, JaasFile};

/// Returns the options of the only module of section `S`, as `name=value` separated by `|`.
fn options(body: &str) -> Result<String, String> {
    let file =
        JaasFile::parse(&format!("S {{ c required {body}; }};")).map_err(|e| e.to_string())?;
    let module = &file.section("S").expect("the section").modules[0];
    let shown =
        |(name, value): (&String, &herdsman_sasl::Secret)| format!("{name}={}", value.expose());
    Ok(module.options.iter().map(shown).collect::<Vec<_>>().join("|"))
}

fn complaint(text: &str) -> String {
    JaasFile::parse(text).expect_err("a file that cannot be read").to_string()
}

#[test]
fn a_file_has_sections_with_modules_with_options() {
    let file = JaasFile::parse(
        "/* of the\n ensemble */ Server{a.b.C ReQuired user_x=\"1\" user_y=two ;d.E optional;};// the end\n\
         \"Quoted Name\" { \"f.G\" \"sufficient\" \"k\"=\"v\"; } ;\r\nEmpty { };",
    )
    .expect("a good file");
    let names: Vec<_> = file.sections().iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, ["Server", "Quoted Name", "Empty"]);
    let server = file.section("Server").expect("a section");
    let modules: Vec<_> = server.modules.iter().map(|m| (m.class.as_str(), m.control)).collect();
    assert_eq!(modules, [("a.b.C", ControlFlag::Required), ("d.E", ControlFlag::Optional)]);
    assert_eq!(server.modules[0].options["user_x"].expose(), "1");
    assert!(file.section("server").is_none());
    assert!(JaasFile::parse(" \n// nothing\n").expect("an empty file").sections().is_empty());
}

#[test]
fn values_are_words_or_quoted_texts() {
    for (body, expected) in [
        ("", ""),
        ("a=b", "a=b"),
        ("a = b", "a=b"),
        ("a=b a=c", "a=c"),
        ("a=b.c-d_e$f*9", "a=b.c-d_e$f*9"),
        ("a=\u{fc}\u{43c}", "a=\u{fc}\u{43c}"),
        (r#"a="""#, "a="),
        (r#"a="b c;{}='#/*//""#, "a=b c;{}='#/*//"),
        (r#"a="\"\\\n\t\q""#, "a=\"\\\n\tq"),
        (r#"a="\101\60\0601\400""#, "a=A001 0"),
        (r#"a="\a\b\f\r\v""#, "a=\u{7}\u{8}\u{c}\r\u{b}"),
        (r#"a="${/}x${/}""#, "a=/x/"),
        (r#"a="${{alias}}${{b""#, "a=${{alias}}${{b"),
        (r#"a="x${open""#, "a=x${open"),
        ("user_x-y.z=\"p\"", "user_x-y.z=p"),
    ] {
        assert_eq!(options(body).as_deref(), Ok(expected), "{body}");
    }
}

#[test]
fn errors_name_the_line() {
    for (text, expected) in [
        ("S", "line 1: expected `{` after the section name, found the end of the file"),
        ("{ }", "line 1: expected a section name, found `{`"),
        ("S {\n", "line 2: expected a login module class, or `}`, found the end of the file"),
        ("S { };\n\n};", "line 3: expected a section name, found `}`"),
        ("S { }\nT { };", "line 2: expected `;` after the `}` of a section, found text"),
        (
            "S { c required };",
            "line 1: expected an option name, or `;` after the last option, found `}`",
        ),
        (
            "S { c required a=b\n};",
            "line 2: expected an option name, or `;` after the last option, found `}`",
        ),
        ("S { c required a b; };", "line 1: expected `=` after the option name, found text"),
        ("S { c required a=; };", "line 1: expected an option value, found `;`"),
        ("S { c required a=b; };\nS { };", "line 2: section `S` occurs twice"),
        ("S {\r\n# x\r\n};", "line 2: `#` does not start a comment here: use `//` or `/* */`"),
        ("S { c required a='b'; };", "line 1: use double quotes, not single quotes"),
        (
            "S { c required a=1; };",
            "line 1: put text that starts with a digit, `.` or `-` in double quotes",
        ),
        ("S { c required a=b@c; };", "line 1: put text with this character in double quotes"),
        ("S { c required a=\"b\n\"; };", "line 1: unclosed quotes at the end of the line"),
        (
            "S { c required\nkeyTab=/etc/keytab; };",
            "line 2: `/` outside quotes: put paths and principals in double quotes",
        ),
        ("S {\n/* \n", "line 2: comment is not closed by `*/`"),
    ] {
        assert_eq!(complaint(text), expected, "{text}");
    }
    let flag =
        "line 1: expected required, requisite, sufficient or optional after the login module class";
    assert_eq!(complaint("S { c user_a=b; };"), format!("{flag}, found something else"));
    assert_eq!(complaint("S { c; };"), format!("{flag}, found `;`"));
}

#[test]
fn system_properties_are_not_expanded() {
    assert_eq!(
        complaint("S { c required\n user_bob=\"${bob.password}\"; };"),
        "line 2: option `user_bob` contains `${…}`, but there are no system properties: write the value"
    );
}

#[test]
fn long_files_are_not_read() {
    let long = " ".repeat(JaasFile::BYTES_MAX + 1);
    assert_eq!(complaint(&long), "file of 1048577 bytes, limit is 1048576");
    assert!(JaasFile::parse(&long[1..]).is_ok());
}
