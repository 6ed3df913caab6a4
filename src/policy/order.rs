//! What the earlier parts of a command line do to the paths of the later ones.
//!
//! All paths of a call are resolved before any of it runs. A part that makes links, or may, gives the
//! words of a later part a meaning that was not judged: `ln -s . z; tee z/job.yaml`. So after such a
//! part no file of a known reader or writer is taken for what it was; a call of its own is judged anew.

use super::options::excess;
use super::programs::{Kind, base_name, is_cluster_with, kind, lists};
use super::shell::SimpleCommand;

/// How much a part leaves in doubt what later paths mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doubt {
    /// Not at all: it only reads, or makes nothing that leads elsewhere.
    None,
    /// It runs code of the workspace, which no path rule holds anyway: what rests on a deny rule is in
    /// doubt, but what the code could do itself is not closed to a later part.
    Code,
    /// It may make links.
    Links,
}

/// Programs that only read, as long as no option says more.
const READING: &str = "\
    cat tac head tail wc grep egrep fgrep zgrep rg sort uniq cut tr ls sed awk gawk mawk nawk diff \
    cmp comm od xxd hexdump strings file stat nl paste join fold fmt expand unexpand column rev \
    base64 md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum du df tree find jq \
    readlink realpath basename dirname pwd echo printf true false test date whoami uname which \
    type sleep seq expr cd";

/// Programs that change files, but can make none that leads elsewhere.
const MAKING: &str = "touch mkdir rmdir rm tee truncate chmod chown chgrp";

/// Subcommands of git that leave the working tree as it is.
const GIT_READING: &str = "\
    log show diff status blame rev-parse rev-list ls-files ls-tree grep describe shortlog \
    merge-base name-rev show-ref";

/// Programs that run what the workspace says.
const BUILDING: &str = "\
    cargo rustc npm pnpm yarn make gmake ninja cmake go mvn gradle gradlew dotnet just pytest tox nox \
    ruff mypy black eslint prettier tsc jest vitest gcc g++ cc c++ clang clang++ javac swift zig";

/// The doubt in which each of some commands is, by those that run before it or beside it.
pub(super) fn doubts(commands: &[SimpleCommand]) -> Vec<Doubt> {
    let made: Vec<Doubt> = commands
        .iter()
        .map(|command| leaves(&command.words))
        .collect();
    // The parts of one pipeline run at once: a link may also come from a part that is written later.
    let counts = |at: usize, other: usize| {
        other < at
            || (other > at
                && commands[other].pipeline == commands[at].pipeline
                && is_known_to_link(&commands[other].words))
    };
    let in_doubt = |at: usize| {
        let others = (0..commands.len()).filter(|other| counts(at, *other));
        others.map(|other| made[other]).max().unwrap_or(Doubt::None)
    };
    (0..commands.len()).map(in_doubt).collect()
}

/// In what doubt a command leaves those after it.
fn leaves(words: &[String]) -> Doubt {
    let program = base_name(&words[0]);
    // `./cat` is another program than `cat`.
    if words[0].contains('/')
        && !["/bin/", "/usr/bin/"].contains(&&words[0][..words[0].len() - program.len()])
    {
        return Doubt::Code;
    }
    let does_more = excess(words, 1).is_some();
    let is_harmless = match program {
        "git" => words[1..]
            .iter()
            .find(|word| !word.starts_with('-'))
            .is_some_and(|subcommand| lists(GIT_READING, subcommand)),
        // Without options it follows links and makes files.
        "cp" => words[1..]
            .iter()
            .all(|word| !word.starts_with('-') || matches!(word.as_str(), "-f" | "-v" | "-n")),
        _ => lists(READING, program) || lists(MAKING, program),
    };
    if is_harmless && !does_more {
        return Doubt::None;
    }
    let runs_code = matches!(kind(program), Kind::Interpreter | Kind::Shell) && !does_more;
    if runs_code || lists(BUILDING, program) {
        Doubt::Code
    } else {
        Doubt::Links
    }
}

/// Whether a command is known to make links as soon as it runs, or starts one that is.
///
/// The part before it in a pipeline opens its files at about the same time; a program of which nothing
/// is known would have to win that race unasked.
fn is_known_to_link(words: &[String]) -> bool {
    const LINKING: &str = "ln link mv cp rsync tar bsdtar cpio pax unzip install rename patch";
    /// Subcommands of git that change the working tree before they read their input.
    const GIT_LINKING: &str = "\
        checkout switch restore reset worktree merge pull rebase stash cherry-pick revert clone mv \
        read-tree checkout-index";
    if base_name(&words[0]) == "git" {
        return words.iter().any(|word| lists(GIT_LINKING, word));
    }
    match kind(&words[0]) {
        Kind::Plain | Kind::Interpreter => lists(LINKING, base_name(&words[0])),
        Kind::Wrapper | Kind::Shell | Kind::Evaluator | Kind::Runner => words
            .iter()
            .flat_map(|word| word.split_whitespace())
            .any(|word| word == "git" || lists(LINKING, base_name(word))),
    }
}

/// Programs whose words are not all files: options that take the next word, and how many words before
/// the files are none (a pattern, a script, a mode). Source: the manuals of GNU coreutils, grep, sed,
/// ripgrep, gawk and jq.
const FILTERS: &[(&str, &str, usize)] = &[
    ("head tail", "nc", 0),
    ("cut", "bcdf", 0),
    ("sort", "kt", 0),
    ("grep egrep fgrep zgrep", "eABCm", 1),
    ("rg", "eABCmgt", 1),
    ("uniq", "fsw", 0),
    ("tr", "", usize::MAX),
    ("sed", "e", 1),
    ("awk gawk mawk nawk", "Fv", 1),
    ("jq", "", 1),
    ("column", "s", 0),
    ("fold fmt", "w", 0),
    ("paste", "d", 0),
    ("chmod chown chgrp", "", 1),
    ("wc nl rev cat", "", 0),
];

/// The words of a known reader or writer that may be files, or hold one.
///
/// Where it stands cannot be replaced, and a device is none to be opened by another name.
pub(super) fn files(words: &[String]) -> Vec<&str> {
    let program = base_name(&words[0]);
    let filter = FILTERS
        .iter()
        .find(|(programs, ..)| lists(programs, program));
    let (values, mut not_files) =
        filter.map_or(("", 0), |(_, values, leading)| (*values, *leading));
    let mut files: Vec<&str> = Vec::new();
    let mut options_end = false;
    let mut at = 1;
    while let Some(word) = words.get(at).map(String::as_str) {
        at += 1;
        let is_option = !options_end && word.len() > 1 && word.starts_with('-');
        if !is_option {
            if not_files > 0 {
                not_files -= 1;
            } else {
                files.push(word);
            }
        } else if word == "--" {
            options_end = true;
        } else if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').unwrap_or((long, ""));
            if name.starts_with("reg") || name.starts_with("fi") || name.starts_with("ex") {
                not_files = 0;
            }
            if filter.is_none() || value.contains('/') {
                files.push(value);
            }
        } else {
            let letters = &word[1..];
            if filter.is_some_and(|(_, _, leading)| *leading == 1) && letters.contains(['e', 'f']) {
                not_files = 0;
            }
            let value = letters.find(|letter| values.contains(letter));
            if value.is_some_and(|value| value + 1 == letters.len()) {
                at += 1;
            }
            let may_hold_a_path = !letters.chars().all(char::is_alphanumeric);
            let names_target = lists("cp mv ln install", program) && is_cluster_with(word, &['t']);
            if value.is_none() && (may_hold_a_path || names_target) {
                files.push(word);
            }
        }
    }
    files.retain(|file| !matches!(*file, "" | "-" | "." | "./" | "/dev/null"));
    files
}

#[cfg(test)]
mod tests {
    use super::super::shell::simple_commands;
    use super::*;

    #[test]
    fn what_may_make_links_leaves_the_later_parts_in_doubt() {
        use Doubt::{Code, Links, None};
        for (command, expected) in [
            ("ls", vec![None]),
            ("cat a | sort | uniq -c", vec![None, None, None]),
            ("ln -s . z; cat z/a", vec![None, Links]),
            ("cat z/a | ln -s . z", vec![Links, None]),
            ("cat z/a; ln -s . z", vec![None, None]),
            ("cat z/a | timeout 5 ln -s . z", vec![Links, None]),
            ("cat a | new-program", vec![None, None]),
            ("cat a | git apply", vec![None, None]),
            ("cat z/a | git checkout x", vec![Links, None]),
            ("cat a |\n ln -s . z\ncat b", vec![Links, None, Links]),
            ("cat a &&\n ln -s . z || cat b", vec![None, None, Links]),
            ("cargo test; cat a", vec![None, Code]),
            ("./build.sh; cat a", vec![None, Code]),
            ("./cat x; cat a", vec![None, Code]),
            ("/bin/ls; cat a", vec![None, None]),
            ("bash x.sh; cat a", vec![None, Code]),
            ("bash -c x; cat a", vec![None, Links]),
            ("timeout 5 ln -s . z; cat a", vec![None, Links]),
            (
                "mkdir a; touch b; rm c; cat d",
                vec![None, None, None, None],
            ),
            ("cp a b; cat d", vec![None, None]),
            ("cp -r a b; cat d", vec![None, Links]),
            ("git log; git status; cat a", vec![None, None, None]),
            ("git checkout x; cat a", vec![None, Links]),
            ("git -C x log; cat a", vec![None, Links]),
            ("find . -name a; cat a", vec![None, None]),
            ("find . -exec x {} +; cat a", vec![None, Links]),
            ("sed -i s/a/b/ c; cat a", vec![None, Links]),
            ("new-program; cat a", vec![None, Links]),
        ] {
            let commands = simple_commands(command).expect(command);
            assert_eq!(doubts(&commands), expected, "{command}");
        }
    }

    #[test]
    fn files_are_told_from_patterns_numbers_and_options() {
        for (command, expected) in [
            ("head -n 20", vec![]),
            ("head -20", vec![]),
            ("head -n20 z", vec!["z"]),
            ("tail -n 5 -- a b", vec!["a", "b"]),
            ("grep -n FAILED", vec![]),
            ("grep FAILED a", vec!["a"]),
            ("grep -e x y", vec!["y"]),
            ("grep -f y z", vec!["y", "z"]),
            ("grep -fy/k z", vec!["-fy/k", "z"]),
            ("grep --regexp=x y", vec!["y"]),
            ("sort -k 2 -t , a", vec!["a"]),
            ("tr a b", vec![]),
            ("sed -n 3p", vec![]),
            ("sed -n -e 3p a", vec!["a"]),
            ("sed -f y", vec!["y"]),
            ("awk -F: '{print $1}' a", vec!["a"]),
            ("wc -l", vec![]),
            ("ls -la .", vec![]),
            ("tee -a z", vec!["z"]),
            ("cp a -tz", vec!["a", "-tz"]),
            ("cp a --target-directory=z", vec!["a", "z"]),
            ("curl -d@z", vec!["-d@z"]),
            ("cat /dev/null -", vec![]),
        ] {
            let commands = simple_commands(command).expect(command);
            assert_eq!(files(&commands[0].words), expected, "{command}");
        }
    }
}
