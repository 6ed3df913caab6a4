//! What a program started for the model sees of the runner's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::job::Env;

/// Always passed on. All else, and so every key and token, only when the job file names it.
const PASSED: [&str; 7] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "USER", "SHELL"];

/// Nobody is there to answer: what would ask or page fails or prints instead. A job file may say otherwise.
const UNATTENDED: [(&str, &str); 10] = [
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
];

/// Where programs are looked for when the runner itself has no PATH (cron jobs under some init systems).
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The whole environment of a program: of `runner`, the runner's own, only PATH, HOME, LANG, `LC_*`, TZ,
/// TMPDIR, USER, SHELL and what `env` passes on by name; settings that keep programs from asking; and
/// above all what `env` sets.
pub fn child_environment(
    runner: &BTreeMap<OsString, OsString>,
    env: &Env,
) -> BTreeMap<OsString, OsString> {
    let mut child: BTreeMap<OsString, OsString> = UNATTENDED
        .iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    child.insert("PATH".into(), DEFAULT_PATH.into());
    let is_named = |name: &OsStr| env.pass.iter().any(|pass| name == pass.as_str());
    for (name, value) in runner {
        let is_locale = name.as_encoded_bytes().starts_with(b"LC_");
        if is_locale || PASSED.iter().any(|passed| name == passed) || is_named(name) {
            child.insert(name.clone(), value.clone());
        }
    }
    for (name, value) in &env.set {
        child.insert(name.into(), value.into());
    }
    child
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        pairs
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    #[test]
    fn g46_keys_and_tokens_stay_with_the_runner_unless_named() {
        let runner = map(&[
            ("PATH", "/bin"),
            ("HOME", "/home/ci"),
            ("LANG", "C.UTF-8"),
            ("LC_ALL", "C"),
            ("ANTHROPIC_API_KEY", "sk-1"),
            ("GH_TOKEN", "t"),
            ("ACTIONS_RUNTIME_TOKEN", "t"),
            ("LD_PRELOAD", "x.so"),
            ("BASH_ENV", "/x"),
            ("GIT_EDITOR", "vi"),
            ("NODE_ENV", "test"),
        ]);
        let env = Env {
            pass: vec!["GH_TOKEN".into(), "NOT_THERE".into()],
            set: vec![
                ("LANG".into(), "de".into()),
                ("TERM".into(), "xterm".into()),
            ],
        };
        let mut expected = map(&UNATTENDED);
        expected.extend(map(&[
            ("PATH", "/bin"),
            ("HOME", "/home/ci"),
            ("LANG", "de"),
            ("LC_ALL", "C"),
            ("GH_TOKEN", "t"),
            ("TERM", "xterm"),
        ]));
        assert_eq!(child_environment(&runner, &env), expected);
    }

    #[test]
    fn without_a_path_there_is_a_usual_one() {
        let child = child_environment(&BTreeMap::new(), &Env::default());
        assert_eq!(child[OsStr::new("PATH")], DEFAULT_PATH);
    }
}
