//! Words of a command that a rule with a `*` does not allow, because they do more than the program's
//! name says.
//!
//! The tables cannot be complete either. They close the ways by which an ordinary rule,
//! `Bash(git log *)`, would allow what its author did not mean; a rule that spells the word allows it.

use std::path::Path;

use super::programs::{Kind, ShellUse, base_name, is_cluster_with, kind, lists, shell_use};
use super::scripts;

/// What of a command is more than a rule with `*` allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    /// The word; the rule must spell it, so it must be one of its literal words.
    pub(super) word: usize,
    /// What it does.
    pub(super) does: &'static str,
}

const RUNS: &str = "can run other programs";
const WRITES: &str = "writes to a file that it names";
const READS: &str = "reads a file that it names";
const NAMES: &str = "takes the names of files from a list";
const EVALUATES: &str = "evaluates a name";
const BUILDS: &str = "changes what is built or run";
const SHOWS: &str = "shows the environment of other programs";
const LEAVES: &str = "may lie outside the repository";

/// Options, by program, that write, read or run something the program's name does not tell of.
///
/// `-x` is found in clusters too, `--long` in every abbreviation, a word without a dash as it is.
/// Sources: the manuals of GNU coreutils, sed, tar, ripgrep, curl, wget, rsync, cargo, go, npm, make.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("sort", "-o --output -T --temporary-directory", WRITES),
    ("sort", "--compress-program", RUNS),
    ("sort", "--files0-from", NAMES),
    ("wc", "--files0-from", NAMES),
    ("du", "--files0-from", NAMES),
    ("file", "-f --files-from", NAMES),
    ("tar", "-T --file|s-from", NAMES),
    ("bsdtar", "-T --file|s-from", NAMES),
    ("rsync", "--files-from", NAMES),
    ("zip", "-@", NAMES),
    ("exiftool", "-@", NAMES),
    ("env", "-S --split-string", RUNS),
    ("sed", "-i --in-place", WRITES),
    ("sed", "-f --file", RUNS),
    ("shuf", "-o --output", WRITES),
    ("split", "--filter", RUNS),
    ("sdiff", "-o --output --diff-program", RUNS),
    ("tree", "-o", WRITES),
    ("fd", "-x -X --exec --exec-batch", RUNS),
    ("fdfind", "-x -X --exec --exec-batch", RUNS),
    ("rg", "--pre --hostname-bin -z --search-zip", RUNS),
    ("ag", "--pager", RUNS),
    ("ack", "--pager --output", RUNS),
    ("bat", "--pager --config-file", RUNS),
    ("batcat", "--pager --config-file", RUNS),
    (
        "less",
        "-o -O --log-file --LOG-FILE -k --lesskey-file",
        WRITES,
    ),
    ("man", "-P --pager -H --html -C --config-file", RUNS),
    (
        "tar",
        "--to-command --checkpoint-action -I --use-compress-program --rsh-command -F \
         --info-script --new-volume-script --index-file --rmt-command",
        RUNS,
    ),
    ("bsdtar", "--use-compress-program", RUNS),
    ("zip", "-TT --unzip-command -T", RUNS),
    ("rsync", "-e --rsh --rsync-path --daemon --config", RUNS),
    ("scp", "-S -o -F -D", RUNS),
    ("sftp", "-S -o -F -b -D", RUNS),
    ("ssh", "-o -F", RUNS),
    ("file", "-C --compile", WRITES),
    ("xxd", "-r", WRITES),
    ("printf", "-v", EVALUATES),
    ("test", "-v -R", EVALUATES),
    ("wait", "-p", EVALUATES),
    (
        "curl",
        "-o -O --output --output-dir --remote-name --remote-name-all -D --dump-header -c \
         --cookie-jar --trace --trace-ascii --libcurl --stderr --etag-save --hsts --alt-svc \
         -J --remote-header-name",
        WRITES,
    ),
    (
        "curl",
        "-K --config -T --upload-file --netrc-file -n --netrc",
        READS,
    ),
    (
        "wget",
        "-O --output-document -o --output-file -a --append-output -P --directory-prefix \
         --save-cookies --warc-file --rejected-log",
        WRITES,
    ),
    (
        "wget",
        "-i --input-file --post-file --body-file --config -e --execute",
        READS,
    ),
    ("wget", "--use-askpass", RUNS),
    (
        "cargo",
        "--config --target-dir --out-dir --artifact-dir",
        BUILDS,
    ),
    ("rustc", "-C -o --codegen --out-dir --emit", BUILDS),
    (
        "go",
        "=-exec =-toolexec =-vettool =-o =-overlay =-modfile =-C",
        BUILDS,
    ),
    (
        "npm",
        "--script-shell --node-options --prefix --userconfig --globalconfig --git --shell \
         --editor --viewer -C",
        BUILDS,
    ),
    ("pnpm", "--dir -C --shell-emulator --script-shell", BUILDS),
    ("yarn", "--cwd --use-yarnrc --script-shell", BUILDS),
    (
        "make",
        "-f --file --makefile -C --directory --eval -E -I --include-dir",
        BUILDS,
    ),
    ("gcc", "-o -wrapper -B", BUILDS),
    ("ps", "=e =eww =auxe =auxeww", SHOWS),
    ("openssl", "=-engine =-provider", RUNS),
];

/// `find`'s own commands; only a rule without `*` allows them. Source: findutils' manual.
const FIND_ACTIONS: &str = "\
    -exec -execdir -ok -okdir -delete -fprint -fprint0 -fprintf -fls -files0-from";

/// Programs that are told by their input which files to take.
const NAMES_FROM_INPUT: &str = "cpio pax";

/// What of a command must be spelled by a rule that has a `*`. `None`: nothing.
///
/// A word past the end of every rule (`usize::MAX`) means: only a rule without `*`.
pub(super) fn excess(words: &[String], literal_words: usize) -> Option<Excess> {
    let exact_only = |does| {
        Some(Excess {
            word: usize::MAX,
            does,
        })
    };
    let program = base_name(&words[0]);
    match kind(&words[0]) {
        Kind::Wrapper => return exact_only("starts other programs"),
        Kind::Evaluator => return exact_only("changes or runs what cannot be judged from outside"),
        Kind::Shell => {
            if shell_use(words) != ShellUse::Script {
                return exact_only("runs commands that cannot be judged");
            }
        }
        Kind::Interpreter | Kind::Runner | Kind::Plain => {}
    }
    if matches!(kind(&words[0]), Kind::Shell | Kind::Interpreter) && literal_words == 0 {
        return Some(Excess {
            word: 0,
            does: "runs programs of its language",
        });
    }
    if lists(NAMES_FROM_INPUT, program) {
        return exact_only(NAMES);
    }
    if program == "find" && words.iter().any(|word| lists(FIND_ACTIONS, word)) {
        return exact_only("runs, deletes or writes what it finds");
    }
    (literal_words..words.len())
        .find_map(|at| does(words, at).map(|does| Excess { word: at, does }))
}

/// What of a command runs or reads something that its words do not show, so that a deny rule could not
/// see it. What only writes is seen as a file; what a build tool is told to build or run is no more
/// than what it does without being told.
pub(super) fn hidden(words: &[String]) -> Option<Excess> {
    let program = base_name(&words[0]);
    if lists(NAMES_FROM_INPUT, program) {
        return Some(Excess {
            word: usize::MAX,
            does: NAMES,
        });
    }
    // What these start is followed.
    if matches!(program, "find" | "fd" | "fdfind") {
        return None;
    }
    (1..words.len()).find_map(|at| {
        let does = match program {
            "git" => git_hidden(words, at),
            _ => does(words, at),
        };
        does.filter(|does| ![WRITES, BUILDS, SHOWS, LEAVES].contains(does))
            .map(|does| Excess { word: at, does })
    })
}

/// What a word of a command does beyond what the program's name says.
fn does(words: &[String], at: usize) -> Option<&'static str> {
    let program = base_name(&words[0]);
    match program {
        "git" => git_word(words, at),
        "sed" | "gsed" if scripts::is_in_place(&words[at]) => Some(WRITES),
        "sed" | "gsed" => scripts::sed_word(words, at),
        "awk" | "gawk" | "mawk" | "nawk" => scripts::awk_word(words, at),
        "uniq" | "xxd" => second_operand(words, at),
        "make" | "gmake" if at > 0 && words[at].contains('=') => Some(BUILDS),
        // Old style, without a dash.
        "tar" | "bsdtar" if at == 1 && !words[at].starts_with('-') => {
            if words[at].contains(['I', 'F']) {
                Some(RUNS)
            } else {
                words[at].contains('T').then_some(NAMES)
            }
        }
        "less" | "more" if at > 0 && words[at].starts_with('+') => Some(RUNS),
        _ => None,
    }
    .or_else(|| option(program, words, at))
}

fn option(program: &str, words: &[String], at: usize) -> Option<&'static str> {
    if at == 0 {
        return None;
    }
    let word = words[at].as_str();
    let program = match program {
        "gmake" => "make",
        "g++" | "cc" | "c++" | "clang" | "clang++" => "gcc",
        "zgrep" | "egrep" | "fgrep" => "grep",
        "gsed" => "sed",
        other => other,
    };
    OPTIONS
        .iter()
        .filter(|(of, ..)| *of == program)
        .find(|(_, options, _)| {
            options
                .split_whitespace()
                .any(|option| is_option(word, option))
        })
        .map(|(.., does)| *does)
}

/// Whether a word is this option, in any of its spellings.
fn is_option(word: &str, option: &str) -> bool {
    if let Some(exact) = option.strip_prefix('=') {
        // Go takes `-o`, `--o` and `-o=x`.
        let word = word.split_once('=').map_or(word, |(name, _)| name);
        return word == exact || word.strip_prefix('-') == Some(exact);
    }
    if let Some(long) = option.strip_prefix("--") {
        let Some(given) = word.strip_prefix("--") else {
            return false;
        };
        let given = given.split_once('=').map_or(given, |(name, _)| name);
        // GNU programs take any unambiguous beginning; what stands before `|` is another option.
        return match long.split_once('|') {
            Some((other, rest)) => given
                .strip_prefix(other)
                .is_some_and(|more| !more.is_empty() && rest.starts_with(more)),
            None => !given.is_empty() && long.starts_with(given),
        };
    }
    match option.strip_prefix('-') {
        Some(short) if short.len() == 1 => {
            is_cluster_with(word, &short.chars().collect::<Vec<char>>())
        }
        _ => word == option,
    }
}

/// `uniq in out`, `xxd in out`: the second file is written.
fn second_operand(words: &[String], at: usize) -> Option<&'static str> {
    let operands = words[1..=at]
        .iter()
        .filter(|word| !word.starts_with('-') || word.as_str() == "-")
        .count();
    (at > 0 && operands > 1 && !words[at].starts_with('-')).then_some(WRITES)
}

/// Options of git, of any subcommand, that run, read or write something else.
///
/// Source: git's manual pages; `-O` is the pager of `git grep`, `-x` the command of `git rebase` and
/// `git difftool`, `-u` the other side's program of `git clone`.
const GIT_OPTIONS: &[(&str, &str)] = &[
    ("--output", WRITES),
    ("--output-directory", WRITES),
    ("--separate-git-dir", WRITES),
    ("--no-index", READS),
    ("--contents", READS),
    ("--ext-diff", RUNS),
    ("--upload-pack", RUNS),
    ("--receive-pack", RUNS),
    ("--exec", RUNS),
    ("--exec-path", RUNS),
    ("--open-files-in-pager", RUNS),
    ("--template", RUNS),
    ("--config", RUNS),
    ("--config-env", RUNS),
    ("--extcmd", RUNS),
    ("--remote", RUNS),
    ("--to-cmd", RUNS),
    ("--cc-cmd", RUNS),
    ("--pathspec-from-file", NAMES),
    ("--stdin", NAMES),
    ("--stdin-paths", NAMES),
    ("--batch", NAMES),
    ("--batch-check", NAMES),
    ("--batch-command", NAMES),
];

/// Subcommands that run programs, change what later commands run, or write outside.
const GIT_SUBCOMMANDS: &str = "\
    config bisect submodule filter-branch difftool mergetool hook credential send-email \
    imap-send daemon http-backend shell upload-pack receive-pack upload-archive worktree \
    bundle help instaweb gui citool web--browse maintenance remote-ext remote-fd remote-http \
    remote-https p4 svn cvsimport cvsexportcommit cvsserver archimport init clone fsmonitor \
    fsmonitor--daemon rebase scalar difftool--helper mergetool--lib gitk sh-i18n quiltimport \
    request-pull filter-repo for-each-repo replace update-index hash-object var";

/// Before the subcommand these change nothing but the looks.
const GIT_HARMLESS: &str = "\
    --no-pager -P --version -v --help -h --literal-pathspecs --no-optional-locks \
    --no-replace-objects";

fn git_word(words: &[String], at: usize) -> Option<&'static str> {
    if at == 0 {
        return None;
    }
    let word = words[at].as_str();
    let subcommand = git_subcommand(words);
    if subcommand.is_none_or(|subcommand| at < subcommand) {
        return (!lists(GIT_HARMLESS, word)).then_some("changes where or how git works");
    }
    if subcommand == Some(at) {
        return (lists(GIT_SUBCOMMANDS, word) || word.starts_with("credential-"))
            .then_some("can run other programs or change what git runs");
    }
    if let Some((_, does)) = GIT_OPTIONS
        .iter()
        .find(|(option, _)| is_option(word, option))
    {
        return Some(does);
    }
    let subcommand = subcommand.map(|at| words[at].as_str());
    match subcommand {
        Some("grep") if is_cluster_with(word, &['O']) => Some(RUNS),
        Some("grep") if is_cluster_with(word, &['f']) => Some(READS),
        Some("archive" | "format-patch") if is_cluster_with(word, &['o']) => Some(WRITES),
        Some("fetch" | "ls-remote" | "pull" | "push" | "remote") if word.contains("::") => {
            Some(RUNS)
        }
        // Files outside a repository are compared as with --no-index.
        Some("diff") if leaves(word) => Some(LEAVES),
        _ => None,
    }
}

/// Subcommands that run what their words or the configuration say.
const GIT_HIDDEN: &str = "\
    filter-branch difftool mergetool hook credential send-email imap-send daemon http-backend \
    shell upload-pack receive-pack upload-archive for-each-repo instaweb gui citool web--browse \
    maintenance remote-ext remote-fd remote-http remote-https p4 svn cvsimport cvsexportcommit \
    cvsserver archimport fsmonitor fsmonitor--daemon scalar difftool--helper mergetool--lib gitk \
    quiltimport filter-repo replace";

/// As [`git_word`], for [`hidden`]: most subcommands that change what git runs do nothing else.
fn git_hidden(words: &[String], at: usize) -> Option<&'static str> {
    /// Before the subcommand these lead elsewhere, which is seen.
    const SEEN: &str = "-C --work-tree --bare --no-advice --icase-pathspecs --glob-pathspecs";
    let word = words[at].as_str();
    let subcommand = git_subcommand(words);
    if subcommand.is_none_or(|subcommand| at < subcommand) {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        let is_seen = lists(GIT_HARMLESS, word)
            || lists(SEEN, name)
            || (word == "-c" && words.get(at + 1).is_some_and(|key| is_harmless_key(key)));
        return (word.starts_with('-') && !is_seen).then_some(RUNS);
    }
    let name = subcommand.map(|at| words[at].as_str());
    if subcommand == Some(at) {
        let is_hidden = match word {
            "config" => !is_harmless_config(&words[at + 1..]),
            _ => lists(GIT_HIDDEN, word) || word.starts_with("credential-"),
        };
        return is_hidden.then_some(RUNS);
    }
    match (name, word) {
        (Some("bisect"), "run") | (Some("submodule"), "foreach") => Some(RUNS),
        (Some("rebase"), _) if is_cluster_with(word, &['x']) => Some(RUNS),
        _ => git_word(words, at),
    }
}

/// Whether a key of git's configuration says only who commits, or how output looks.
fn is_harmless_key(key: &str) -> bool {
    ["user.", "color.", "core.quotepath="]
        .iter()
        .any(|harmless| key.starts_with(harmless))
}

/// Whether the words after `git config` only ask, or set a harmless key.
fn is_harmless_config(words: &[String]) -> bool {
    const ASKING: &str = "--get --get-all --list -l get list";
    let mut words = words
        .iter()
        .skip_while(|word| lists("--global --local --show-origin", word));
    words
        .next()
        .is_some_and(|word| lists(ASKING, word) || is_harmless_key(word))
}

/// Where the subcommand of git stands.
fn git_subcommand(words: &[String]) -> Option<usize> {
    /// Options before it that take the next word.
    const WITH_VALUE: &str = "-c -C --git-dir --work-tree --namespace --config-env --super-prefix";
    let mut at = 1;
    while words.get(at)?.starts_with('-') {
        at += if lists(WITH_VALUE, &words[at]) { 2 } else { 1 };
    }
    Some(at)
}

/// Whether a word, read as a path, may lead out of the working directory.
fn leaves(word: &str) -> bool {
    word.starts_with('/') || Path::new(word).iter().any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(command: &str) -> Vec<String> {
        command.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn words_that_do_more_are_found_where_the_rule_does_not_spell_them() {
        // command, literal words of the rule, the word that is too much
        for (command, literal_words, word) in [
            ("git log --oneline -3", 2, None),
            ("git log --output=x", 2, Some(2)),
            ("git log --outp x", 2, Some(2)),
            ("git log --output x", 4, None),
            ("git log --no-merges", 2, None),
            ("git -c core.pager=x log", 1, Some(1)),
            ("git --no-pager log", 1, None),
            ("git config alias.x y", 1, Some(1)),
            ("git config user.name", 2, None),
            ("git diff --no-index a b", 2, Some(2)),
            ("git diff main..feature", 2, None),
            ("git diff /etc/passwd x", 2, Some(2)),
            ("git grep -Oless x", 2, Some(2)),
            ("git fetch ext::sh", 2, Some(2)),
            ("sort -k2 -r x", 1, None),
            ("sort -ro x", 1, Some(1)),
            ("sort --out=x", 1, Some(1)),
            ("find . -name x", 1, None),
            ("find . -delete", 2, Some(usize::MAX)),
            ("rg --pre x y", 1, Some(1)),
            ("rg -n x", 1, None),
            ("tar xf a.tar", 1, None),
            ("tar cIf sh a.tar", 1, Some(1)),
            ("tar --to-command=x xf a", 1, Some(1)),
            ("uniq a", 1, None),
            ("uniq -c a b", 1, Some(3)),
            ("make test SHELL=x", 2, Some(2)),
            ("make test", 1, None),
            ("go build -o x", 2, Some(2)),
            ("go test -v ./...", 2, None),
            ("cargo test --config x", 2, Some(2)),
            ("timeout 5 ls", 2, Some(usize::MAX)),
            ("bash x.sh", 1, None),
            ("bash x.sh", 0, Some(0)),
            ("bash -c x", 1, Some(usize::MAX)),
            ("bash", 1, Some(usize::MAX)),
            ("python3 --version", 0, Some(0)),
            ("python3 x.py", 1, None),
            ("npx eslint .", 1, None),
        ] {
            assert_eq!(
                excess(&split(command), literal_words).map(|excess| excess.word),
                word,
                "{command}"
            );
        }
    }
}
