//! The specifier of a path rule, gitignore-like, matched by path component.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::command::Fault;
use super::decide::Roots;

/// `src/**`, `.env`, `//etc/hosts`.
///
/// * `//p` starts at the file system's root, `~/p` at home, `/p`, `./p` and `p` at the workspace.
/// * `*` and `?` stay within a component, `**` is a component of its own and stands for any number.
/// * A bare name (`.env`, `*.pem`) is found at any depth below the workspace.
/// * `dir/**` (or `dir/`) allows below the workspace's own `dir`, and denies below every `dir`.
/// * An allow rule covers what it matches and nothing else; a deny rule also covers what lies below.
#[derive(Clone, Debug)]
pub(super) struct PathPattern {
    anchor: Anchor,
    /// Relative to the anchor, as allow rules match.
    allow: GlobMatcher,
    /// Relative to the anchor, as deny rules match.
    deny: GlobMatcher,
    /// `deny` without a last `/**`: the directories whose whole content is denied.
    deny_directory: Option<GlobMatcher>,
    /// Leading components without wildcards.
    literal: PathBuf,
    /// Whether a deny rule is found at any depth.
    denies_at_any_depth: bool,
    /// A bare name.
    is_bare_name: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    FileSystem,
    Home,
    Workspace,
}

impl PathPattern {
    /// Reads a specifier that is not empty and has no blanks around it.
    pub(super) fn parse(specifier: &str) -> Result<Self, Fault> {
        let whole = specifier.len();
        if specifier.starts_with('!') {
            return Err(Fault::new("a path rule cannot be negated", 0, 1)
                .help("write the exception as a rule of the other list"));
        }
        let (anchor, is_relative, rest) = anchor(specifier)?;
        let start = whole - rest.len();
        let rest_whole = if rest.ends_with('/') {
            format!("{rest}**")
        } else {
            rest.to_owned()
        };
        let components: Vec<&str> = rest_whole.split('/').collect();
        check_components(&components, start)?;

        let is_bare_name = is_relative && components.len() == 1 && components[0] != "**";
        let is_directory =
            is_relative && components.len() == 2 && components[0] != "**" && components[1] == "**";
        let any_depth = format!("**/{rest_whole}");
        let allow = if is_bare_name {
            &any_depth
        } else {
            &rest_whole
        };
        let deny = if is_bare_name || is_directory {
            &any_depth
        } else {
            &rest_whole
        };
        let compile = |text: &str| {
            GlobBuilder::new(text)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map(|glob| glob.compile_matcher())
                .map_err(|error| {
                    Fault::new(format!("bad pattern: {}", error.kind()), start, rest.len())
                })
        };
        let deny_directory = match deny.strip_suffix("/**") {
            Some(directory) => Some(compile(directory)?),
            None => None,
        };
        Ok(Self {
            anchor,
            allow: compile(allow)?,
            deny: compile(deny)?,
            deny_directory,
            literal: components
                .iter()
                .take_while(|component| !component.contains(is_glob_char))
                .collect(),
            denies_at_any_depth: is_bare_name || is_directory,
            is_bare_name,
        })
    }

    /// Whether an allow rule covers this path.
    pub(super) fn allows(&self, path: &Path, roots: &Roots) -> bool {
        self.below_anchor(path, roots)
            .is_some_and(|relative| self.allow.is_match(relative))
    }

    /// Whether a deny rule covers this path, or a directory above it.
    pub(super) fn denies(&self, path: &Path, roots: &Roots) -> bool {
        self.below_anchor(path, roots)
            .is_some_and(|relative| is_match_upwards(&self.deny, relative))
    }

    /// Whether a deny rule covers this directory, or all that lies in it.
    pub(super) fn denies_directory(&self, path: &Path, roots: &Roots) -> bool {
        self.denies(path, roots)
            || self
                .below_anchor(path, roots)
                .zip(self.deny_directory.as_ref())
                .is_some_and(|(relative, deny)| is_match_upwards(deny, relative))
            // `/**` and `**` deny the anchor's whole content.
            || (self.deny.glob().glob() == "**" && self.anchor_path(roots) == Some(path))
    }

    /// Whether a deny rule could cover something below this directory.
    pub(super) fn may_deny_below(&self, directory: &Path, roots: &Roots) -> bool {
        let Some(anchor) = self.anchor_path(roots) else {
            return false;
        };
        let base = if self.denies_at_any_depth {
            anchor.to_path_buf()
        } else {
            anchor.join(&self.literal)
        };
        base.starts_with(directory) || directory.starts_with(&base)
    }

    /// The path up to the first wildcard; of a bare name without wildcards only the name counts.
    pub(super) fn literal_part(&self, roots: &Roots) -> Option<PathBuf> {
        Some(self.anchor_path(roots)?.join(&self.literal))
    }

    /// Whether it is a bare name, which is found at any depth.
    pub(super) fn is_bare_name(&self) -> bool {
        self.is_bare_name
    }

    /// Whether it speaks of places outside the workspace (`//p`, `~/p`).
    pub(super) fn is_outside(&self) -> bool {
        self.anchor != Anchor::Workspace
    }

    fn anchor_path<'a>(&self, roots: &'a Roots) -> Option<&'a Path> {
        match self.anchor {
            Anchor::FileSystem => Some(Path::new("/")),
            Anchor::Home => roots.home.as_deref(),
            Anchor::Workspace => Some(&roots.workspace),
        }
    }

    fn below_anchor<'a>(&self, path: &'a Path, roots: &Roots) -> Option<&'a Path> {
        path.strip_prefix(self.anchor_path(roots)?).ok()
    }
}

/// The path relative to an anchor, and each directory above it below the anchor.
fn is_match_upwards(glob: &GlobMatcher, relative: &Path) -> bool {
    relative
        .ancestors()
        .filter(|path| !path.as_os_str().is_empty())
        .any(|path| glob.is_match(path))
}

fn anchor(specifier: &str) -> Result<(Anchor, bool, &str), Fault> {
    let (anchor, is_relative, rest) = if let Some(rest) = specifier.strip_prefix("//") {
        (Anchor::FileSystem, false, rest)
    } else if let Some(rest) = specifier.strip_prefix("~/") {
        (Anchor::Home, false, rest)
    } else if let Some(rest) = specifier.strip_prefix('/') {
        (Anchor::Workspace, false, rest)
    } else if let Some(rest) = specifier.strip_prefix("./") {
        (Anchor::Workspace, false, rest)
    } else if specifier.starts_with('~') {
        return Err(Fault::new("`~` must be followed by `/`", 0, 1)
            .help("`~/` is the home directory; a name that begins with `~` is written `./~name`"));
    } else {
        (Anchor::Workspace, true, specifier)
    };
    if rest.is_empty() {
        return Err(Fault::new("the path is empty", 0, specifier.len())
            .help("everything below is written `**`, such as `./**`"));
    }
    Ok((anchor, is_relative, rest))
}

fn check_components(components: &[&str], start: usize) -> Result<(), Fault> {
    let mut offset = start;
    for component in components {
        let width = component.len().max(1);
        let fault = |message: &str| Fault::new(message, offset, width);
        if component.is_empty() {
            return Err(fault("an empty path component").help(
                "`//` is understood only at the beginning, where it is the file system's root",
            ));
        }
        if matches!(*component, "." | "..") {
            return Err(
                fault("a rule names a place, so `.` and `..` cannot stand in it")
                    .help("a place outside the workspace is written `//absolute/path` or `~/path`"),
            );
        }
        if component.contains("**") && *component != "**" {
            return Err(
                fault("`**` must be a path component of its own").help(format!(
                    "within a name a single `*` is enough; any depth is `**/{}`",
                    component.replace("**", "*")
                )),
            );
        }
        if !is_balanced(component) {
            return Err(fault("a bracket or brace is open at the end of a name")
                .help("a bracket that is meant itself is escaped by a backslash"));
        }
        if component.chars().any(char::is_control) {
            return Err(fault("a control character"));
        }
        offset += component.len() + 1;
    }
    Ok(())
}

/// Whether `[…]` and `{…}` end in the component in which they begin, and no backslash is the last.
fn is_balanced(component: &str) -> bool {
    let mut braces = 0_i32;
    let mut class = false;
    let mut chars = component.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none() => return false,
            '[' => class = true,
            ']' => class = false,
            '{' if !class => braces += 1,
            '}' if !class => braces -= 1,
            _ => {}
        }
    }
    braces == 0 && !class
}

fn is_glob_char(c: char) -> bool {
    matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\')
}

/// A rule's specifier for exactly this path: relative to the workspace where it lies there.
pub(super) fn specifier_for(path: &Path, roots: &Roots) -> Option<String> {
    let (prefix, rest) = match path.strip_prefix(&roots.workspace) {
        Ok(rest) => ("", rest),
        Err(_) => ("//", path.strip_prefix("/").ok()?),
    };
    let rest = rest.to_str()?;
    if rest.is_empty() || rest.contains(char::is_control) {
        return None;
    }
    let mut specifier = prefix.to_owned();
    // A bare name would be found at any depth, and these beginnings have a meaning.
    if prefix.is_empty() && (!rest.contains('/') || rest.starts_with(['~', '!'])) {
        specifier.push_str("./");
    }
    for c in rest.chars() {
        if is_glob_char(c) || matches!(c, '(' | ')') {
            specifier.push('\\');
        }
        specifier.push(c);
    }
    Some(specifier)
}

/// Whether a path is absolute and has neither `.` nor `..`: only such paths are judged.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|component| matches!(component, Component::RootDir | Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots() -> Roots {
        Roots {
            workspace: PathBuf::from("/ws"),
            home: Some(PathBuf::from("/home/u")),
            protected_files: Vec::new(),
            ..Roots::default()
        }
    }

    #[test]
    fn rules_cover_what_gitignore_would_and_allow_rules_no_more() {
        // rule, path, as allow, as deny
        for (rule, path, allows, denies) in [
            ("src/**", "/ws/src/a.rs", true, true),
            ("src/**", "/ws/src/a/b/c.rs", true, true),
            ("src/**", "/ws/srcx/a.rs", false, false),
            ("src/**", "/ws/src", false, false),
            ("src/**", "/other/src/a", false, false),
            ("src/**", "/ws/deep/src/a", false, true),
            ("src/", "/ws/src/a", true, true),
            ("src/", "/ws/deep/src/a", false, true),
            ("./src/**", "/ws/deep/src/a", false, false),
            ("/src/**", "/ws/src/a", true, true),
            ("a/src/**", "/ws/b/a/src/c", false, false),
            ("**", "/ws/.hidden/x", true, true),
            ("**", "/wsx", false, false),
            (".env", "/ws/.env", true, true),
            (".env", "/ws/a/b/.env", true, true),
            (".env", "/ws/.env.local", false, false),
            (".env", "/ws/.env/inner", false, true),
            ("*.env", "/ws/a/x.env", true, true),
            ("./.env", "/ws/a/.env", false, false),
            ("./.env", "/ws/.env", true, true),
            ("src/*.rs", "/ws/src/a.rs", true, true),
            ("src/*.rs", "/ws/src/b/a.rs", false, false),
            ("src/**/*.rs", "/ws/src/a.rs", true, true),
            ("src/**/*.rs", "/ws/src/b/c/a.rs", true, true),
            ("**/build/**", "/ws/build/x", true, true),
            ("**/build/**", "/ws/a/build/x/y", true, true),
            ("**/build/**", "/ws/build", false, false),
            ("//etc/hosts", "/etc/hosts", true, true),
            ("//**/.env", "/anywhere/at/all/.env", true, true),
            ("~/.config/x/**", "/home/u/.config/x/y", true, true),
            ("~/x", "/home/u/a/x", false, false),
            ("/etc/hosts", "/etc/hosts", false, false),
            ("src/{a,b}.rs", "/ws/src/b.rs", true, true),
            ("src/[ab].rs", "/ws/src/c.rs", false, false),
            ("a\\*b", "/ws/a*b", true, true),
            ("a\\*b", "/ws/axb", false, false),
            ("..hidden/file", "/ws/..hidden/file", true, true),
            ("app/(group)/x", "/ws/app/(group)/x", true, true),
        ] {
            let pattern = PathPattern::parse(rule).expect(rule);
            let path = Path::new(path);
            assert_eq!(
                (
                    pattern.allows(path, &roots()),
                    pattern.denies(path, &roots())
                ),
                (allows, denies),
                "{rule} on {}",
                path.display()
            );
        }
    }

    #[test]
    fn a_directory_is_denied_when_its_whole_content_is() {
        for (rule, directory, denied) in [
            ("secrets/**", "/ws/secrets", true),
            ("secrets/**", "/ws/a/secrets", true),
            ("secrets/**", "/ws/secrets/deep", true),
            ("secrets/*.key", "/ws/secrets", false),
            ("**", "/ws", true),
            ("**", "/ws/a", true),
            (".env", "/ws", false),
        ] {
            let pattern = PathPattern::parse(rule).expect(rule);
            assert_eq!(
                pattern.denies_directory(Path::new(directory), &roots()),
                denied,
                "{rule} on {directory}"
            );
        }
    }

    #[test]
    fn a_deny_rule_knows_where_it_could_bite() {
        for (rule, directory, may) in [
            (".env", "/ws/src", true),
            (".env", "/", true),
            (".env", "/other", false),
            ("./a/b/*.key", "/ws/a", true),
            ("./a/b/*.key", "/ws/a/b/c", true),
            ("./a/b/*.key", "/ws/c", false),
            ("secrets/**", "/ws/c", true),
        ] {
            let pattern = PathPattern::parse(rule).expect(rule);
            assert_eq!(
                pattern.may_deny_below(Path::new(directory), &roots()),
                may,
                "{rule} on {directory}"
            );
        }
    }

    #[test]
    fn faults_are_placed() {
        for (rule, message, offset, width) in [
            ("!src", "a path rule cannot be negated", 0, 1),
            ("~user/x", "`~` must be followed by `/`", 0, 1),
            ("//", "the path is empty", 0, 2),
            ("/", "the path is empty", 0, 1),
            ("a//b", "an empty path component", 2, 1),
            (
                "../x/**",
                "a rule names a place, so `.` and `..` cannot stand in it",
                0,
                2,
            ),
            (
                "src/**.rs",
                "`**` must be a path component of its own",
                4,
                5,
            ),
            (
                "src/[ab",
                "a bracket or brace is open at the end of a name",
                4,
                3,
            ),
            (
                "{a/b}",
                "a bracket or brace is open at the end of a name",
                0,
                2,
            ),
        ] {
            let fault = PathPattern::parse(rule).expect_err(rule);
            assert_eq!(
                (fault.message.as_str(), fault.offset, fault.width),
                (message, offset, width),
                "{rule}"
            );
        }
    }

    #[test]
    fn the_rule_for_a_path_matches_that_path_alone() {
        for (path, specifier) in [
            ("/ws/src/a.rs", "src/a.rs"),
            ("/ws/a.rs", "./a.rs"),
            ("/etc/hosts", "//etc/hosts"),
            ("/ws/app/(g)/[id].ts", "app/\\(g\\)/\\[id\\].ts"),
            ("/ws/~x/y", "./~x/y"),
        ] {
            let made = specifier_for(Path::new(path), &roots()).expect(path);
            assert_eq!(made, specifier);
            let pattern = PathPattern::parse(&made).expect(path);
            assert!(pattern.allows(Path::new(path), &roots()), "{made}");
        }
        assert_eq!(specifier_for(Path::new("/ws"), &roots()), None);
    }
}
