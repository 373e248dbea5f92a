//! JAAS files with arbitrary content.

use herdsman_sasl::{JaasFile, Login};

/// In: the bytes of a file.
pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(file) = JaasFile::parse(&text) else {
        return;
    };
    for section in file.sections() {
        let found = file.section(&section.name).expect("a section is found by its name");
        assert_eq!(found.name, section.name);
        if let Err(error) = Login::from_file(&file, &section.name) {
            assert!(!error.to_string().contains('\n'), "an error is one line");
        }
    }
    assert!(file.section("there is no such section").is_none());
}
