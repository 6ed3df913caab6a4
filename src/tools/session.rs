//! What the tools of one conversation share.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::policy::{Permit, Resolved, Target};
use crate::workspace::{Location, Workspace};

/// What a conversation's tools work with.
#[derive(Debug)]
pub struct SessionSpec {
    /// Where they work.
    pub workspace: Workspace,
    /// The whole environment of what they start.
    pub environment: BTreeMap<OsString, OsString>,
    /// The bash that runs commands, absolute.
    pub bash: PathBuf,
    /// Where results go that are too large for the conversation; made when first needed.
    pub results: PathBuf,
    /// Directories that Glob and Grep do not see, links followed: the runner's own output.
    pub hidden: Vec<PathBuf>,
}

/// What the tools of one conversation share: the workspace, what was read, and where Bash stands.
#[derive(Debug)]
pub struct Session {
    spec: SessionSpec,
    /// By real path, what the model knows of a file.
    known: Mutex<HashMap<PathBuf, Fingerprint>>,
    cwd: Mutex<PathBuf>,
}

/// A file's content, as far as it must be told from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fingerprint {
    length: usize,
    hash: u64,
}

impl Fingerprint {
    fn of(content: &[u8]) -> Self {
        // Guards against accidents, not against somebody who looks for collisions: a cryptographic
        // digest would cost more than all the rest of reading a file.
        let mut hasher = DefaultHasher::new();
        hasher.write(content);
        Self {
            length: content.len(),
            hash: hasher.finish(),
        }
    }
}

/// What the model knows of a file's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// It was never read.
    Unread,
    /// It was read, and then somebody changed it.
    Outdated,
    /// What was read is what is there.
    Current,
}

impl Session {
    /// A conversation in which nothing was read yet, and Bash stands at the workspace's root.
    pub fn new(spec: SessionSpec) -> Self {
        Self {
            cwd: Mutex::new(spec.workspace.root().to_owned()),
            known: Mutex::default(),
            spec,
        }
    }

    /// Where the tools work.
    pub fn workspace(&self) -> &Workspace {
        &self.spec.workspace
    }

    /// Where the next Bash command runs, absolute.
    pub fn cwd(&self) -> PathBuf {
        lock(&self.cwd).clone()
    }

    /// Where a path that a model wrote leads; relative ones from the workspace's root.
    pub fn resolve(&self, path: &str) -> Location {
        let root = self.spec.workspace.root();
        self.spec.workspace.resolve(Path::new(path), root)
    }

    pub(super) fn set_cwd(&self, cwd: PathBuf) {
        *lock(&self.cwd) = cwd;
    }

    pub(super) fn environment(&self) -> &BTreeMap<OsString, OsString> {
        &self.spec.environment
    }

    /// The bash that runs commands, absolute.
    pub fn bash(&self) -> &Path {
        &self.spec.bash
    }

    pub(super) fn results(&self) -> &Path {
        &self.spec.results
    }

    pub(super) fn hidden(&self) -> &[PathBuf] {
        &self.spec.hidden
    }

    /// The model has seen this content, or has written it.
    pub(super) fn know(&self, real: &Path, content: &[u8]) {
        lock(&self.known).insert(real.to_owned(), Fingerprint::of(content));
    }

    pub(super) fn knowledge(&self, real: &Path, content: &[u8]) -> Knowledge {
        match lock(&self.known).get(real) {
            None => Knowledge::Unread,
            Some(known) if *known == Fingerprint::of(content) => Knowledge::Current,
            Some(_) => Knowledge::Outdated,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is locked is one insert or one assignment: never half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path that a file tool's call was permitted for.
pub(super) fn permitted_path(permit: &Permit) -> &Resolved {
    match &permit.call().target {
        Target::Path { path, .. } => path,
        other => unreachable!("a file tool's call was judged as {other:?}"),
    }
}

/// A session in a temporary directory, with permits for the asking.
#[cfg(test)]
pub(super) mod testing {
    use std::sync::Arc;

    use serde_json::Value;

    use super::*;
    use crate::message::{ResultContent, ToolInput, ToolUse};
    use crate::policy::Call;
    use crate::sandbox::Cancel;
    use crate::tools::{Output, Registry, Tool, Touches, execute};

    pub(in super::super) struct Bench {
        pub(in super::super) session: Session,
        pub(in super::super) root: PathBuf,
        pub(in super::super) cancel: Cancel,
        dir: tempfile::TempDir,
    }

    impl Bench {
        pub(in super::super) fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap().join("ws");
            std::fs::create_dir(&root).unwrap();
            let path = "/usr/local/bin:/usr/bin:/bin";
            let mut environment =
                crate::sandbox::child_environment(&BTreeMap::new(), &crate::job::Env::default());
            environment.insert("PATH".into(), path.into());
            environment.insert("HOME".into(), dir.path().into());
            let session = Session::new(SessionSpec {
                workspace: Workspace::open(&root).unwrap(),
                environment,
                bash: crate::sandbox::find_bash(&BTreeMap::new()),
                results: dir.path().join("results"),
                hidden: vec![root.join("lightsout-runs")],
            });
            Self {
                session,
                root,
                cancel: Cancel::new().unwrap(),
                dir,
            }
        }

        /// A directory outside the workspace.
        pub(in super::super) fn outside(&self) -> PathBuf {
            self.dir.path().canonicalize().unwrap()
        }

        pub(in super::super) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
            let path = self.root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        pub(in super::super) fn content(&self, path: &str) -> Vec<u8> {
            std::fs::read(self.root.join(path)).unwrap()
        }

        pub(in super::super) fn permit(&self, tool: &dyn Tool, input: &Value) -> Permit {
            let target = match tool.touches(input) {
                Touches::Path { path, access } => {
                    let Location { written, real } = self.session.resolve(&path);
                    Target::Path {
                        access,
                        path: Resolved { written, real },
                    }
                }
                Touches::Command(command) => Target::Command {
                    command,
                    cwd: self.session.cwd(),
                },
                Touches::Nothing => Target::Nothing,
            };
            Permit::for_tests(Call {
                tool_use: ToolUse {
                    id: "toolu_1".into(),
                    name: tool.spec().name,
                    input: ToolInput::Json(input.clone()),
                },
                target,
            })
        }

        /// The tool's own output, arguments fitted.
        pub(in super::super) fn run(&self, name: &str, input: Value) -> Output {
            let (tool, input) = Self::checked(name, input);
            let permit = self.permit(&*tool, &input);
            tool.run(&permit, &input, &self.session, &self.cancel)
        }

        /// What the model reads, and whether it is an error.
        pub(in super::super) fn call(&self, name: &str, input: Value) -> (String, bool) {
            let (tool, input) = Self::checked(name, input);
            let permit = self.permit(&*tool, &input);
            let redact = |text: String| text;
            let result = execute(
                &*tool,
                &permit,
                &input,
                &self.session,
                &self.cancel,
                &redact,
                &|_| tool.max_result_chars(),
            );
            let texts = result.content.iter().map(|content| match content {
                ResultContent::Text(text) => text.clone(),
                ResultContent::Image { media_type, .. } => format!("[{media_type}]"),
            });
            (texts.collect::<Vec<_>>().join("\n"), result.is_error)
        }

        fn checked(name: &str, input: Value) -> (Arc<dyn Tool>, Value) {
            let call = ToolUse {
                id: "toolu_1".into(),
                name: name.into(),
                input: ToolInput::Json(input),
            };
            let checked = Registry::built_in(|_| true).check(&call).unwrap();
            (checked.tool, checked.input)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Bench;
    use super::*;

    #[test]
    fn what_was_read_is_told_from_what_is_there_now() {
        let bench = Bench::new();
        let path = Path::new("/f");
        assert_eq!(bench.session.knowledge(path, b"a"), Knowledge::Unread);
        bench.session.know(path, b"a");
        assert_eq!(bench.session.knowledge(path, b"a"), Knowledge::Current);
        assert_eq!(bench.session.knowledge(path, b"b"), Knowledge::Outdated);
    }
}
