//! `--only` and `--skip`: which prompts of a run are meant.

use std::fmt;

use globset::{GlobBuilder, GlobMatcher};

/// The prompts that a run is about.
#[derive(Debug, Default)]
pub struct Selection {
    only: Vec<GlobMatcher>,
    skip: Vec<GlobMatcher>,
}

/// A pattern that is no glob.
#[derive(Debug)]
pub struct BadPattern {
    pattern: String,
    cause: String,
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no pattern for prompt ids: {}",
            self.pattern, self.cause
        )
    }
}

impl std::error::Error for BadPattern {}

impl Selection {
    /// From patterns: a prompt's id, `JOB/ID`, or a glob over either.
    pub fn new(only: &[String], skip: &[String]) -> Result<Self, BadPattern> {
        let compile = |patterns: &[String]| -> Result<Vec<GlobMatcher>, BadPattern> {
            patterns.iter().map(|pattern| matcher(pattern)).collect()
        };
        Ok(Self {
            only: compile(only)?,
            skip: compile(skip)?,
        })
    }

    /// The patterns of `only` that name none of these prompts (`JOB`, `ID`): mistyped, most likely.
    pub fn unmatched<'a>(&self, prompts: &[(&'a str, &'a str)]) -> Vec<String> {
        self.only
            .iter()
            .filter(|pattern| {
                !prompts
                    .iter()
                    .any(|(job, prompt)| names(pattern, job, prompt))
            })
            .map(|pattern| pattern.glob().to_string())
            .collect()
    }

    /// Whether the prompt is meant: named by `only`, or nothing is, and not by `skip`.
    pub fn selects(&self, job: &str, prompt: &str) -> bool {
        let named =
            |patterns: &[GlobMatcher]| patterns.iter().any(|pattern| names(pattern, job, prompt));
        (self.only.is_empty() || named(&self.only)) && !named(&self.skip)
    }
}

fn names(pattern: &GlobMatcher, job: &str, prompt: &str) -> bool {
    pattern.is_match(prompt) || pattern.is_match(format!("{job}/{prompt}"))
}

fn matcher(pattern: &str) -> Result<GlobMatcher, BadPattern> {
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    glob.map(|glob| glob.compile_matcher())
        .map_err(|error| BadPattern {
            pattern: pattern.to_owned(),
            cause: error.kind().to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_globs_and_jobs_are_named_and_skip_wins() {
        let owned =
            |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        for (only, skip, expected) in [
            (&[][..], &[][..], "a b ab"),
            (&["a"], &[], "a"),
            (&["a*"], &[], "a ab"),
            (&["nightly/b"], &[], "b"),
            (&["weekly/*"], &[], ""),
            (&["a*"], &["ab"], "a"),
            (&[], &["nightly/*"], ""),
        ] {
            let selection = Selection::new(&owned(only), &owned(skip)).unwrap();
            let selected: Vec<&str> = ["a", "b", "ab"]
                .into_iter()
                .filter(|id| selection.selects("nightly", id))
                .collect();
            assert_eq!(selected.join(" "), expected, "{only:?} {skip:?}");
        }
    }

    #[test]
    fn a_mistyped_pattern_is_found_beside_a_good_one() {
        let only = ["a".to_owned(), "bb".to_owned()];
        let selection = Selection::new(&only, &[]).unwrap();
        assert_eq!(selection.unmatched(&[("job", "a"), ("job", "b")]), ["bb"]);
    }

    #[test]
    fn a_pattern_that_is_none_is_refused_by_name() {
        let error = Selection::new(&["a[".to_owned()], &[]).unwrap_err();
        assert!(
            error.to_string().starts_with("`a[` is no pattern"),
            "{error}"
        );
    }
}
