//! What is known of programs: which start others, which open files.
//!
//! The tables cannot be complete. A program that is missing is a plain one: a rule must name it to
//! allow it, and a rule that denies what it would start does not see that.

/// How a program treats the words after its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Starts the command that some of its words form.
    Wrapper,
    /// Hands some of its words to a shell, or changes what later words mean: what it does cannot be
    /// followed from outside.
    Evaluator,
    /// A shell: `-c` evaluates, a file name runs a script, nothing reads commands from its input.
    Shell,
    /// Runs programs of a language.
    Interpreter,
    /// Starts what a word names, but a rule for it says so: `npx`, `docker`.
    Runner,
    /// Anything else.
    Plain,
}

const WRAPPERS: &str = "\
    env timeout gtimeout nice nohup xargs time sudo doas pkexec setsid stdbuf ionice chroot \
    unshare nsenter strace ltrace gdb valgrind perf taskset chrt prlimit busybox toybox exec \
    command builtin noglob nocorrect runuser systemd-run start-stop-daemon firejail bwrap \
    proot fakeroot unbuffer torsocks proxychains proxychains4 numactl cpulimit rlwrap \
    setarch linux32 linux64 setpriv capsh choom xvfb-run dbus-run-session dbus-launch \
    run-parts entr catchsegv uftrace newgrp sg cgexec schedtool eatmydata chpst softlimit \
    daemonize ccache jobs i386 i486 i586 i686 x86_64 uname26";

const EVALUATORS: &str = "\
    eval watch su script parallel sem flock lockf trap source . alias hash enable bind \
    complete compgen fc coproc at batch crontab tmux screen pushd popd export declare \
    typeset local readonly unset read mapfile readarray let getopts set shopt vi vim nvim \
    view ex ed emacs expect gnome-terminal xterm dialog";

const SHELLS: &str = "\
    sh bash rbash dash ash zsh ksh mksh fish csh tcsh yash pwsh nu elvish xonsh";

const INTERPRETERS: &str = "\
    python pypy node nodejs deno bun perl ruby php lua luajit tclsh wish awk gawk mawk nawk \
    Rscript R julia irb ghci runghc jshell groovy scala guile racket sbcl clisp osascript m4 \
    bc dc gnuplot octave ocaml elixir erl iex swipl ts-node tsx ipython";

const RUNNERS: &str = "\
    npx bunx pnpx uvx pipx docker podman nerdctl kubectl ssh mise asdf direnv devbox nix \
    nix-shell uv poetry pipenv rye hatch find fd fdfind";

/// Programs whose operands are files to be read: each is held against `Read` denials.
const READERS: &str = "\
    cat tac head tail wc grep egrep fgrep zgrep rg ag ack sort uniq cut tr ls sed awk gawk \
    mawk nawk diff sdiff cmp comm less more most od xxd hexdump hd strings file stat nl \
    paste join fold fmt expand unexpand column pr rev shuf base32 base64 md5sum sha1sum \
    sha224sum sha256sum sha384sum sha512sum b2sum cksum sum du tree find fd fdfind jq yq bat \
    batcat zcat bzcat xzcat zstdcat gzip gunzip bzip2 xz zstd readlink realpath curl wget \
    scp sftp nc openssl gpg iconv dos2unix unix2dos look pg view source . exiftool pandoc";

/// Programs whose operands are files to be changed: each is held against `Read` and `Write` denials
/// and protected paths.
const WRITERS: &str = "\
    cp mv tee rm rmdir unlink touch mkdir mkfifo mknod ln link install dd chmod chown chgrp \
    truncate rsync tar bsdtar cpio zip unzip shred patch split csplit sponge setfacl chattr \
    rename sed sort uniq xxd";

/// Whether a table, names with blanks between them, holds a name.
pub(super) fn lists(table: &str, name: &str) -> bool {
    table.split_whitespace().any(|listed| listed == name)
}

/// The name without directories: `/bin/rm` as `rm`.
pub(super) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// What kind of program a word names.
pub(super) fn kind(program: &str) -> Kind {
    // `.` is a program of its own; of `python3.12` the version is left out.
    let name = base_name(program);
    let unversioned = match name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "" => name,
        short => short.trim_end_matches('-'),
    };
    let is = |table| lists(table, name) || lists(table, unversioned);
    if is(WRAPPERS) || name.starts_with("ld-linux") || name.starts_with("ld-musl") {
        Kind::Wrapper
    } else if is(EVALUATORS) {
        Kind::Evaluator
    } else if is(SHELLS) {
        Kind::Shell
    } else if is(INTERPRETERS) {
        Kind::Interpreter
    } else if is(RUNNERS) {
        Kind::Runner
    } else {
        Kind::Plain
    }
}

/// Whether the program's words are files to be read.
pub(super) fn is_reader(program: &str) -> bool {
    lists(READERS, base_name(program))
}

/// Whether the program's words are files to be changed.
pub(super) fn is_writer(program: &str) -> bool {
    lists(WRITERS, base_name(program))
}

/// Whether the command reads or moves whole directories.
pub(super) fn is_recursive(words: &[String]) -> bool {
    let options = |letters: &[char], long: &[&str]| {
        words[1..].iter().any(|word| {
            is_cluster_with(word, letters)
                || (word.len() > 2 && long.iter().any(|long| long.starts_with(word.as_str())))
        })
    };
    match base_name(&words[0]) {
        "grep" | "egrep" | "fgrep" | "zgrep" => {
            options(
                &['r', 'R'],
                &[
                    "--recursive",
                    "--dereference-recursive",
                    "--directories=recurse",
                ],
            ) || words
                .iter()
                .any(|word| word == "recurse" || word == "-drecurse")
                || words.iter().any(|word| word.starts_with("--dir"))
        }
        "cp" => options(&['r', 'R', 'a'], &["--recursive", "--archive"]),
        "rm" | "chmod" | "chown" | "chgrp" => options(&['r', 'R'], &["--recursive"]),
        "diff" | "rg" | "ag" | "ack" | "mv" | "rsync" | "tar" | "bsdtar" | "zip" | "cpio"
        | "scp" => true,
        "find" => words.iter().any(|word| word == "-delete"),
        "git" => words.get(1).is_some_and(|word| word == "grep"),
        _ => false,
    }
}

/// `-xyz` with one of the letters in it.
pub(super) fn is_cluster_with(word: &str, letters: &[char]) -> bool {
    word.strip_prefix('-')
        .is_some_and(|rest| !rest.starts_with('-') && rest.contains(letters))
}

/// Whether an evaluator is built into the shell, so that no other program can start it.
pub(super) fn is_builtin(program: &str) -> bool {
    /// The evaluators that are programs of their own.
    const PROGRAMS: &str = "watch su script parallel sem flock lockf at batch crontab tmux screen vi \
        vim nvim view ex ed emacs expect gnome-terminal xterm dialog";
    !lists(PROGRAMS, base_name(program))
}

/// What a shell is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShellUse<'a> {
    /// `bash -ex script.sh`.
    Script,
    /// `bash -c 'text'`.
    Text(&'a str),
    /// It reads commands from its input, or has options that are not known here.
    Unknown,
}

/// What the words of a shell start it for.
pub(super) fn shell_use(words: &[String]) -> ShellUse<'_> {
    let is_cluster = |word: &str, letters: &str| {
        word.strip_prefix('-')
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| letters.contains(c)))
    };
    let mut at = 1;
    while words.get(at).is_some_and(|word| is_cluster(word, "euxvf")) {
        at += 1;
    }
    match (words.get(at), words.get(at + 1)) {
        // What follows `-c` may be more options.
        (Some(word), Some(text))
            if is_cluster(word, "euxvflc")
                && word.contains('c')
                && !text.starts_with(['-', '+']) =>
        {
            ShellUse::Text(text)
        }
        (Some(word), _) if !word.is_empty() && !word.starts_with(['-', '+']) => ShellUse::Script,
        _ => ShellUse::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_names_without_directory_and_version() {
        for (program, expected) in [
            ("/usr/bin/env", Kind::Wrapper),
            ("eval", Kind::Evaluator),
            (".", Kind::Evaluator),
            ("bash", Kind::Shell),
            ("python3.12", Kind::Interpreter),
            ("python", Kind::Interpreter),
            ("lua5.4", Kind::Interpreter),
            ("npx", Kind::Runner),
            ("git", Kind::Plain),
            ("gitleaks", Kind::Plain),
            ("7", Kind::Plain),
        ] {
            assert_eq!(kind(program), expected, "{program}");
        }
    }
}
