//! The reports of a run on disk.

use std::path::Path;

use anyhow::Context;

use crate::transcript::write_atomically;

use super::junit::junit;
use super::markdown::markdown;
use super::record::RunRecord;
use super::run_json::run_json;

/// Writes `run.json`, `junit.xml` and `summary.md` into `directory`, which must exist. Blocking.
///
/// Each appears whole or not at all. All are tried, whatever happens to one; the errors name the files
/// that are missing.
pub fn write_all(record: &RunRecord, directory: &Path) -> Result<(), Vec<anyhow::Error>> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        write_atomically(&path, |file| file.write_all(text.as_bytes()))
            .with_context(|| format!("writing {}", path.display()))
    };
    let errors: Vec<anyhow::Error> = [
        write("run.json", &run_json(record)),
        junit(record).and_then(|text| write("junit.xml", &text)),
        write("summary.md", &markdown(record)),
    ]
    .into_iter()
    .filter_map(Result::err)
    .collect();
    if errors.is_empty() {
        Ok(())
    } else {
        Err(errors)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::mixed;
    use super::*;

    #[test]
    fn every_report_is_written_even_when_one_cannot_be() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("junit.xml")).unwrap();
        let record = mixed().record();
        let errors = write_all(&record, directory.path()).unwrap_err();
        assert_eq!(errors.len(), 1);
        assert!(errors[0].to_string().contains("junit.xml"));
        for (name, text) in [
            ("run.json", run_json(&record)),
            ("summary.md", markdown(&record)),
        ] {
            assert_eq!(
                std::fs::read_to_string(directory.path().join(name)).unwrap(),
                text
            );
        }
        std::fs::remove_dir(directory.path().join("junit.xml")).unwrap();
        write_all(&record, directory.path()).unwrap();
        assert!(directory.path().join("junit.xml").is_file());
    }
}
