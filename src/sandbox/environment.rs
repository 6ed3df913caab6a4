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

/// Git's configuration by environment, above that of repository, user and system. A directory that only
/// looks like a bare repository can be written by whoever writes files, and its `config` names programs
/// (`core.fsmonitor` and others) that `git status` would run: so a repository is a `.git`, or named by
/// `--git-dir`. Source: git-config(1), `safe.bareRepository`, `core.fsmonitor`, `GIT_CONFIG_COUNT`.
const GIT_CONFIG: [(&str, &str); 2] = [
    ("safe.bareRepository", "explicit"),
    ("core.fsmonitor", "false"),
];

const GIT_COUNT: &str = "GIT_CONFIG_COUNT";
const GIT_KEY: &str = "GIT_CONFIG_KEY_";
const GIT_VALUE: &str = "GIT_CONFIG_VALUE_";

/// Where programs are looked for when the runner itself has no PATH (cron jobs under some init systems).
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The whole environment of a program: of `runner`, the runner's own, only PATH, HOME, LANG, `LC_*`, TZ,
/// TMPDIR, USER, SHELL and what `env` passes on by name; settings that keep programs from asking, and git
/// from running what a planted repository names; and above all what `env` sets.
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
    configure_git(&mut child);
    child
}

/// Puts [`GIT_CONFIG`] in front of the git configuration that is there already: of two values of a key
/// git takes the later, so the job file's own wins. A count that git refuses stays, and git with it.
fn configure_git(child: &mut BTreeMap<OsString, OsString>) {
    let count = match child.get(OsStr::new(GIT_COUNT)) {
        None => Some(0),
        Some(count) => git_count(count),
    };
    let Some(count) = count else { return };
    let entries: Vec<(OsString, OsString)> = child
        .extract_if(.., |name, _| git_entry(name).is_some())
        .collect();
    for (name, value) in entries {
        if let Some((prefix, index)) = git_entry(&name) {
            let index = index.saturating_add(GIT_CONFIG.len());
            child.insert(format!("{prefix}{index}").into(), value);
        }
    }
    for (index, (key, value)) in GIT_CONFIG.iter().enumerate() {
        child.insert(format!("{GIT_KEY}{index}").into(), key.into());
        child.insert(format!("{GIT_VALUE}{index}").into(), value.into());
    }
    let count = count + GIT_CONFIG.len();
    child.insert(GIT_COUNT.into(), count.to_string().into());
}

/// How many entries git would read; `None` when it would refuse. An empty count is none.
fn git_count(count: &OsStr) -> Option<usize> {
    match count.to_str()?.trim() {
        "" => Some(0),
        // Git's own limit is that of a C int.
        digits => digits.parse::<i32>().ok()?.try_into().ok(),
    }
}

/// The variable of an entry of git's configuration by environment: what its name begins with, and its index.
fn git_entry(name: &OsStr) -> Option<(&'static str, usize)> {
    let name = name.to_str()?;
    [GIT_KEY, GIT_VALUE].into_iter().find_map(|prefix| {
        let index = name.strip_prefix(prefix)?.parse().ok()?;
        // Another way to write the number is another name, which git does not look for.
        (name == format!("{prefix}{index}")).then_some((prefix, index))
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use super::super::{Cancel, OutputCap, ProcessSpec, run};
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
        expected.extend(map(&OURS));
        assert_eq!(child_environment(&runner, &env), expected);
    }

    const OURS: [(&str, &str); 5] = [
        ("GIT_CONFIG_COUNT", "2"),
        ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
        ("GIT_CONFIG_VALUE_0", "explicit"),
        ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
        ("GIT_CONFIG_VALUE_1", "false"),
    ];

    /// The variables of git's configuration where the job file sets these.
    fn git_variables(set: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
        let set = set.iter().map(|&(name, value)| (name.into(), value.into()));
        let env = Env {
            pass: Vec::new(),
            set: set.collect(),
        };
        let mut child = child_environment(&BTreeMap::new(), &env);
        child.retain(|name, _| name.as_encoded_bytes().starts_with(b"GIT_CONFIG_"));
        child
    }

    #[test]
    fn a_job_s_own_git_configuration_comes_behind_ours_and_so_wins() {
        assert_eq!(git_variables(&[]), map(&OURS));
        assert_eq!(git_variables(&[("GIT_CONFIG_COUNT", "")]), map(&OURS));
        let theirs = [
            ("GIT_CONFIG_COUNT", "2"),
            ("GIT_CONFIG_KEY_0", "user.name"),
            ("GIT_CONFIG_VALUE_0", "Ann"),
            ("GIT_CONFIG_KEY_1", "core.fsmonitor"),
            ("GIT_CONFIG_VALUE_1", "true"),
            ("GIT_CONFIG_KEY_01", "never.read"),
        ];
        let mut expected = map(&OURS);
        expected.extend(map(&[
            ("GIT_CONFIG_COUNT", "4"),
            ("GIT_CONFIG_KEY_2", "user.name"),
            ("GIT_CONFIG_VALUE_2", "Ann"),
            ("GIT_CONFIG_KEY_3", "core.fsmonitor"),
            ("GIT_CONFIG_VALUE_3", "true"),
            ("GIT_CONFIG_KEY_01", "never.read"),
        ]));
        assert_eq!(git_variables(&theirs), expected);
    }

    #[test]
    fn a_count_that_git_refuses_stays() {
        for count in ["x", "-1", "99999999999"] {
            let set = [("GIT_CONFIG_COUNT", count), ("GIT_CONFIG_KEY_0", "a.b")];
            assert_eq!(git_variables(&set), map(&set), "{count}");
        }
    }

    /// Runs git in a directory; whether it succeeded.
    fn git(directory: &Path, arguments: &[&str], env: BTreeMap<OsString, OsString>) -> bool {
        let spec = ProcessSpec {
            program: "git".into(),
            args: arguments.iter().map(Into::into).collect(),
            cwd: directory.to_owned(),
            env,
            timeout: Duration::from_mins(1),
            output_cap: OutputCap {
                head: 1000,
                tail: 1000,
            },
        };
        let finished = run(&spec, &Cancel::new().unwrap()).unwrap();
        finished.ending == super::super::Ending::Exited(0)
    }

    #[test]
    fn a_planted_bare_repository_runs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let planted = dir.path().join("planted");
        let ran = dir.path().join("ran");
        for part in ["objects", "refs", "work"] {
            fs::create_dir_all(planted.join(part)).unwrap();
        }
        fs::write(planted.join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let config = format!(
            "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = work\nfsmonitor = \"touch {} #\"\n",
            ran.display()
        );
        fs::write(planted.join("config"), config).unwrap();
        let safe = child_environment(
            &map(&[("PATH", "/usr/local/bin:/usr/bin:/bin")]),
            &Env::default(),
        );
        let mut bare = safe.clone();
        bare.retain(|name, _| git_entry(name).is_none() && name != GIT_COUNT);
        git(&planted, &["status"], bare);
        assert!(ran.exists(), "the attack itself works");
        fs::remove_file(&ran).unwrap();
        for command in ["status", "diff", "add --all", "log"] {
            let words: Vec<&str> = command.split(' ').collect();
            assert!(!git(&planted, &words, safe.clone()), "{command}");
            assert!(!ran.exists(), "{command}");
        }
        // Named on purpose it is a repository, and still nothing is run.
        assert!(git(&planted, &["--git-dir=.", "status"], safe.clone()));
        assert!(!ran.exists());
        assert!(git(dir.path(), &["init", "-q", "own"], safe.clone()));
        assert!(git(&dir.path().join("own"), &["status"], safe.clone()));
        assert!(git(&dir.path().join("own/.git"), &["log", "--all"], safe));
    }

    #[test]
    fn without_a_path_there_is_a_usual_one() {
        let child = child_environment(&BTreeMap::new(), &Env::default());
        assert_eq!(child[OsStr::new("PATH")], DEFAULT_PATH);
    }
}
